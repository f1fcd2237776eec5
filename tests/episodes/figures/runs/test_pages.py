"""Tests of the list of runs and of the page of one run."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any
from urllib.parse import parse_qs

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoAssertNumQueries

from environments.models import UNRESTRICTED
from episodes.figures.runs import run_lines as whereabouts
from episodes.figures.runs import training_steps
from episodes.figures.runs.run_list import RUNS_PER_PAGE
from episodes.models import EnvironmentRevision, Episode, Rollout, Run
from episodes.removal.batch import ids_of, new_removal, remove_all
from episodes.runs.description import parsed_description
from episodes.runs.trainer_updates import steer
from tests.episodes.ended import end_episode, end_episodes
from tests.rows import each
from tests.stored import NOW, make_environment, make_episode, make_run, make_split, make_task

pytestmark = pytest.mark.django_db


def test_a_run_is_listed_with_what_it_reached(client: Client) -> None:
    for reward in (0.0, 1.0):
        end_episode(reward, run=make_run("grpo-3"))
    page = client.get("/runs/").content.decode()
    assert "grpo-3" in page and "+0.50" in page and "50%" in page


def test_a_run_without_an_ending_is_listed_too(client: Client) -> None:
    make_episode(run=make_run("fresh"), status="running", cause="", ended=None, end_number=None)
    assert "fresh" in client.get("/runs/").content.decode()


def test_a_run_is_listed_while_something_is_left_of_it(client: Client) -> None:
    """Removing the demo leaves no empty rows."""
    for name in ("emptied", "reported"):
        end_episode(run=make_run(name))
    Rollout.objects.create(event_id="1", run=Run.objects.get(name="reported"), received=NOW)
    steer("described", parsed_description({"state": "ended"}), UNRESTRICTED, [])
    assert "emptied" in client.get("/runs/").content.decode()
    remove_all(new_removal("ada", "demo"), ids_of(Episode.objects.all()))
    page = client.get("/runs/").content.decode()
    assert "emptied" not in page and "reported" in page and "described" in page


def test_returns_follow_the_definition_of_the_run_s_environment(client: Client) -> None:
    task = make_task(environment=make_environment("deep", default_return="max"))
    end_episode(0.25, return_max=0.75, task=task, run=make_run())
    assert "+0.75" in client.get("/runs/").content.decode()
    assert "+0.25" in client.get("/runs/?return=sum").content.decode()


def test_it_says_whose_code_has_changed_while_runs_count_all_of_it(client: Client) -> None:
    for name, codes in (("steady", "aa"), ("changing", "ab")):
        environment = make_environment(name)
        for code in codes:
            values = {"digest": code * 8, "versions": "{}", "first_episode": 1, "created": NOW}
            EnvironmentRevision.objects.create(environment=environment, code=code * 8, **values)
        end_episode(task=make_task(environment=environment), run=make_run())
    page = client.get("/runs/").content.decode()
    assert (
        "The code of changing has changed over time. The figures of a run count all revisions"
        in page
    )


def test_older_runs_are_a_page_away(client: Client) -> None:
    names = [f"run-{number:02}" for number in range(RUNS_PER_PAGE + 1)]
    runs = [steer(name, {"state": "ended"}, UNRESTRICTED, []).run for name in names]
    first = client.get("/runs/").content.decode()
    assert f"after={runs[1].pk}" in first and "run-00" not in first
    assert "run-00" in client.get(f"/runs/?after={runs[1].pk}").content.decode()


def test_without_runs_it_says_how_an_agent_names_one(client: Client) -> None:
    assert "orsweb_run" in client.get("/runs/").content.decode()


def test_the_list_takes_the_same_number_of_queries_for_every_length(
    client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    task = make_task()
    for number in range(12):
        end_episode(run=make_run(f"run-{number}"), task=task)
    client.get("/")  # the first visit makes the account of the operator
    with django_assert_max_num_queries(25):
        client.get("/runs/")


def test_the_page_of_a_run_tells_environments_steps_and_episodes(client: Client) -> None:
    episode = end_episode(run=make_run("grpo-3"), run_step=7)
    page = client.get(f"/runs/{episode.run_id}/").content.decode()
    assert "run=grpo-3&amp;step=7" in page and "environment=math&amp;run=grpo-3" in page
    assert f"/episodes/{episode.pk}/" in page


def test_a_mean_return_rests_on_the_attempts_that_have_one(client: Client) -> None:
    run = make_run()
    for reward in (1.0, 1.0, 1.0, None, None, None):
        end_episode(reward, run=run)
    page = client.get(f"/runs/{run.pk}/?return=max").content.decode()
    assert "n = 3<" in page and re.search(r">6</a> attempts", page)


@each("query", ["by=model", "runs=999999", "group=lr"])
def test_it_draws_one_curve_and_refuses_what_asks_for_several(client: Client, query: str) -> None:
    end_episode(run=make_run(), model="")
    answer = client.get(f"/runs/{make_run().pk}/?{query}")
    assert answer.status_code == 400 and "no parameter has that name" in answer.content.decode()


def test_the_switches_of_its_curve_keep_to_the_run(client: Client) -> None:
    end_episode(run=make_run("grpo-3"), run_step=7)
    page = client.get(f"/runs/{make_run('grpo-3').pk}/?smooth=0.5").content.decode()
    links = re.findall(r'href="/runs/curves/\?([^"]+)"', page)
    switches = [parse_qs(link.replace("&amp;", "&")) for link in links if "smooth" in link]
    assert len(switches) >= 10 and all(one["run"] == ["grpo-3"] for one in switches)
    assert {"run": ["grpo-3"], "x": ["step"], "smooth": ["0.5"], "y": ["success"]} in switches


def test_a_training_step_counts_the_tasks_of_all_environments(client: Client) -> None:
    run, tasks = (
        make_run("grpo-3"),
        [make_task(environment=make_environment(name)) for name in ("math", "maze")],
    )
    for task in (*tasks, tasks[0]):
        end_episode(run=run, run_step=7, task=task)
    found = client.get(f"/runs/{run.pk}/").context
    assert [(step.run_step, step.episodes, step.tasks) for step in found["steps"]] == [(7, 3, 2)]
    assert [(one["environment__name"], one["count"]) for one in found["where"]] == [
        ("math", 2),
        ("maze", 1),
    ]


def test_of_a_long_run_the_newest_episodes_and_latest_whole_steps_are_counted(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whereabouts, "MAX_COUNTED", 3)
    monkeypatch.setattr(training_steps, "MAX_READ", 3)
    for step in (1, 1, 2, 2):
        end_episode(run=make_run("grpo-3"), run_step=step)
    found = client.get(f"/runs/{make_run('grpo-3').pk}/").context
    assert [one["count"] for one in found["where"]] == [3]
    assert [step.run_step for step in found["steps"]] == [2]


def test_a_training_step_has_figures_and_leads_to_its_groups(client: Client) -> None:
    run, tasks = make_run(), [make_task(), make_task(), make_task()]
    for task, rewards in zip(tasks, ((0.0, 1.0), (1.0, 1.0), (0.0,)), strict=True):
        for reward in rewards:
            end_episode(reward, run=run, run_step=7, task=task)
    end_episode(cause="env_error", run=run, run_step=7, task=tasks[0])
    end_episode(run=run, run_step=8, status="running", cause="", ended=None, end_number=None)
    page = client.get(f"/runs/{run.pk}/?no_call=out")
    running, step = page.context["steps"]
    assert (running.run_step, running.episodes, running.total) == (8, 1, None)
    figures = step.total
    assert (step.episodes, step.tasks, figures.n, figures.mean, figures.successes) == (
        6,
        3,
        5,
        0.6,
        3,
    )
    assert (step.groups.flat, step.groups.groups, step.groups.deviation) == (1, 2, 0.25)
    groups = f"/runs/{run.pk}/groups/?no_call=out&step=7"
    assert groups in unescape(page.content.decode())
    assert "1 of 2 flat" in client.get(groups).content.decode()
    address = re.findall(
        r'"(/episodes/\?[^"]*step=7&ending=attempt[^"]*)"', unescape(page.content.decode())
    )[-1]
    assert client.get(address).content.decode().count(' data-episode="') == 5


def test_the_page_of_a_run_is_drawn_by_its_definition(client: Client) -> None:
    task = make_task(environment=make_environment("deep", default_return="max"))
    episode = end_episode(0.25, return_max=0.75, task=task, run=make_run())
    assert "+0.75" in client.get(f"/runs/{episode.run_id}/").content.decode()
    assert "+0.25" in client.get(f"/runs/{episode.run_id}/?return=sum").content.decode()


def test_splits_of_a_run_are_pooled_only_if_the_reader_wants_it(client: Client) -> None:
    run, environment = make_run("both"), make_environment()
    for name, rewards in (("train", (1.0, 1.0)), ("test", (0.0, 0.0, 0.0))):
        split = make_split(environment=environment, name=name)
        for number, reward in enumerate(rewards):
            end_episode(
                reward,
                task=make_task(environment=environment),
                run=run,
                split=split,
                run_step=number,
            )

    def shown(query: str, status: int = 200) -> Any:
        response = client.get(f"/runs/{run.pk}/?{query}")
        assert response.status_code == status, response.content
        if status != 200:
            return response.content.decode()
        context = response.context
        total = context["line"].outline.total
        assert len(context["episodes"]) == total.n == sum(step.total.n for step in context["steps"])
        assert total.n == context["drawn"].series[0].curve.total.n
        assert context["switches"].get("split") == (
            context["split"].name if context["split"] else None
        )
        return context["split"] and context["split"].name, total.n, total.mean

    of_test = f"environment={environment.name}&split=test"
    assert (shown(""), shown(of_test)) == (("train", 2, 1.0), ("test", 3, 0.0))
    assert shown("splits=together") == (None, 5, 0.4)
    assert "the run played math train, math test" in shown(
        f"environment={environment.name}&split=val", 400
    )
    assert "allowed are together" in shown("splits=all", 400)
    assert (
        "All splits together"
        in client.get(f"/runs/{run.pk}/?part=figures&{of_test}").content.decode()
    )


def test_a_run_of_one_split_has_no_choice_of_splits_and_is_listed_with_its_name(
    client: Client,
) -> None:
    run, split = make_run(), make_split()
    end_episode(1.0, run=run, split=split)
    end_episode(1.0, run=run)
    page = client.get(f"/runs/{run.pk}/")
    assert (
        page.context["line"].outline.total.n == 2 and "splits together" not in page.content.decode()
    )
    row = client.get("/runs/").content.decode().split("<tr data-run=")[1]
    assert f'<td class="wide-only roomy">{split.name}</td>' in row


def test_a_line_says_shortly_how_many_rollouts_are_left_out(client: Client) -> None:
    run = make_run()
    end_episode(1.0, run=run)
    end_episode(cause="env_error", run=run)
    page = client.get("/runs/").content.decode()
    sentence = "1 attempt; 1 infrastructure failure excluded"
    assert f'<summary title="{sentence}">1 excluded</summary>' in page


def test_what_is_excluded_stands_beside_the_attempts_whose_head_explains_it(client: Client) -> None:
    episode = end_episode(run=make_run(), run_step=3)
    end_episode(cause="env_error", run=episode.run, run_step=3)
    for address in (
        f"/runs/{episode.run_id}/",
        f"/runs/{episode.run_id}/groups/?step=3",
        "/runs/groups/",
        "/runs/curves/?by=run",
    ):
        page = client.get(address).content.decode()
        assert "Coverage" not in page, address
        assert 'title="Episodes that count in the figures.' in page, address
        assert "1 excluded</summary>" in page, address


def test_its_notes_are_rendered_and_its_commit_is_short(client: Client) -> None:
    run = make_run()
    described = {"notes": "**Bonus** for `tests`", "git_commit": "0123456789abcdef"}
    Run.objects.filter(pk=run.pk).update(updated=NOW, **described)
    page = client.get(f"/runs/{run.pk}/").content.decode()
    assert "<strong>Bonus</strong> for <code>tests</code>" in page
    assert '<code title="0123456789abcdef">01234567</code>' in page


def test_a_run_leads_to_the_others_of_its_title(client: Client) -> None:
    runs = [Run.objects.begin("tiny", created=NOW, own_id=own_id)[0] for own_id in ("", "", "mine")]
    page = client.get(f"/runs/{runs[1].pk}/").content.decode()
    assert [f'/runs/{run.pk}/">{run.name}</a>' in page for run in runs] == [True, False, True]
    assert "Also named" not in client.get(f"/runs/{make_run('alone').pk}/").content.decode()
    assert "mine" in client.get(f"/runs/{runs[2].pk}/").content.decode()


def test_a_run_that_is_not_there_is_said_so(client: Client) -> None:
    answer = client.get("/runs/999/")
    assert answer.status_code == 404 and "There is no run 999" in answer.content.decode()


def test_an_unknown_definition_is_refused(client: Client) -> None:
    answer = client.get("/runs/?return=median")
    assert answer.status_code == 400 and "sum, last, max, mean" in answer.content.decode()


def test_its_latest_episodes_show_the_same_return(client: Client) -> None:
    episode = end_episode(0.25, return_max=0.75, run=make_run())
    page = client.get(f"/runs/{episode.run_id}/?return=max").content.decode()
    assert "return (max)" in page and "+0.25" not in page


@pytest.mark.parametrize("address", ["/runs/", "/runs/{}/"])
def test_another_threshold_can_be_requested(client: Client, address: str) -> None:
    episode = end_episode(0.25, run=make_run())
    page = client.get(f"{address.format(episode.run_id)}?threshold=0.2&return=max").content.decode()
    assert "100%" in page and 'name="threshold" value="0.2"' in page
    assert '<input type="hidden" name="return" value="max">' in page


def test_a_threshold_that_is_no_number_is_refused(client: Client) -> None:
    assert client.get("/runs/?threshold=high").status_code == 400


def test_a_run_shows_what_its_trainer_said(client: Client) -> None:
    description = {
        "step": 12,
        "git_commit": "ab12cd",
        "notes": "<b>Second</b> try",
        "tags": ["sweep/1"],
    }
    run = steer(
        "grpo-3", parsed_description({**description, "config": {"lr": 1e-5}}), UNRESTRICTED, []
    ).run
    page = client.get(f"/runs/{run.pk}/").content.decode()
    for text in ("running", "12", "ab12cd", "&lt;b&gt;Second&lt;/b&gt; try", "sweep/1", "1e-05"):
        assert text in page


def test_runs_are_listed_by_state_and_tag(client: Client) -> None:
    steer("one", {"tags": ["sweep"]}, UNRESTRICTED, [])
    steer("two", {"state": "failed"}, UNRESTRICTED, [])
    failed, tagged = (
        client.get(f"/runs/?{query}").content.decode() for query in ("state=failed", "tag=sweep")
    )
    assert "two" in failed and "one</strong>" not in failed
    assert "one" in tagged and "two</strong>" not in tagged
    assert "No runs match" in client.get("/runs/?tag=none").content.decode()


def test_a_zoom_of_its_curve_keeps_the_threshold(client: Client) -> None:
    end_episode(0.5, run=make_run())
    page = client.get(f"/runs/{make_run().pk}/?threshold=0.25").content.decode()
    [query] = re.findall(r'data-query="([^"]*)"', page)
    assert parse_qs(unescape(query))["threshold"] == ["0.25"]


def test_the_parts_that_follow_live_are_those_of_the_page(client: Client) -> None:
    run = end_episode(0.5, run=make_run(), run_step=7).run
    assert run
    for address in (
        "/runs/",
        f"/runs/{run.pk}/?threshold=0.25",
        f"/runs/curves/?run={run.name}&x=step",
    ):
        page = client.get(address).content.decode()
        parts = [unescape(part) for part in re.findall(r'data-refetch="([^"]*)"', page)]
        assert parts and 'data-live="episodes"' in page
        for part in parts:
            again = client.get(part, headers={"HX-Request": "true"}).content.decode()
            assert again.strip().startswith("<") and "<html" not in again
            for line in filter(None, again.split("\n")):
                assert line.strip() in page, (part, line)
    assert client.get(f"/runs/{run.pk}/?part=head").status_code == 400


def record_steps(run: Run, count: int = 24, change: int = 12) -> None:
    """Record training steps, of whose attempts one of eight fails before the change and all but one
    from then on."""
    task = make_task()
    attempts = [
        (float((place == 0) == (step >= change)), {"run": run, "run_step": step, "task": task})
        for step in range(count)
        for place in range(8)
    ]
    end_episodes(*attempts)


def test_return_success_and_length_are_drawn_by_default(client: Client) -> None:
    record_steps(run := make_run())
    page = client.get(f"/runs/{run.pk}/").content.decode()
    charts = json.loads(page.partition('id="curve-data" type="application/json">')[2].split("<")[0])
    assert [chart["figure"] for chart in charts] == ["return", "success", "length"]
    assert "report no components" not in page
    assert [mark["x"] for mark in charts[1]["marks"]] == [12]


def test_the_phases_of_a_run_lead_to_their_attempts(client: Client) -> None:
    record_steps(run := make_run())
    page = unescape(client.get(f"/runs/{run.pk}/").content.decode())
    assert page.index('id="curve"') < page.index('id="phases"')
    charts = json.loads(page.partition('id="curve-data" type="application/json">')[2].split("<")[0])
    marks = {chart["figure"]: [mark["text"] for mark in chart["marks"]] for chart in charts}
    assert marks["success"] == ["12: 88% → 12%"]
    links = re.findall(
        r'href="/episodes/\?([^"]*ending=attempt)"', page.partition('id="phases"')[2]
    )
    steps = [parse_qs(link)["step"] for link in links if "step=" in link]
    assert steps[:2] == [["0..11"], ["12..23"]]


def test_older_training_steps_are_a_page_away(client: Client) -> None:
    record_steps(run := make_run())
    first = client.get(f"/runs/{run.pk}/").content.decode()
    assert re.findall(r'<tr>\s*<td class="right number">(\d+)</td>', first)[-1] == "4"
    assert 'href="?before=4#steps"' in first
    older = client.get(f"/runs/{run.pk}/?before=4").content.decode()
    assert re.findall(r'<tr>\s*<td class="right number">(\d+)</td>', older) == ["3", "2", "1", "0"]
    assert "Older steps" not in older and "Latest steps" in older


def test_the_configuration_stands_above_the_charts(client: Client) -> None:
    steer("grpo-3", parsed_description({"config": {"lr": 1e-05}}), UNRESTRICTED, [])
    end_episode(run=Run.objects.get())
    page = client.get(f"/runs/{Run.objects.get().pk}/").content.decode()
    assert page.index("lr <b>1e-05</b>") < page.index('id="curve"')


@each(
    ("part", "words"),
    [("tables", "episodes_runtotal"), ("figures", 'max("episodes_episode"."created")')],
)
def test_a_part_reads_only_what_it_shows(client: Client, part: str, words: str) -> None:
    """Tables say nothing about how the run went, and figures not when it was played where."""
    run = make_run()
    make_episode(run=run, run_step=1)
    statements = dict[str, str]()
    for name in (part, "page"):
        with CaptureQueriesContext(connection) as queries:
            client.get(f"/runs/{run.pk}/?part={name}")
        statements[name] = " ".join(query["sql"].lower() for query in queries)
    assert words in statements["page"] and words not in statements[part]
