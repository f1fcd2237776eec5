"""Tests of the page that compares runs by the tasks that they share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import unescape
from urllib.parse import parse_qs

import pytest
from django.test import Client

from environments.scoring.definition import Definition
from environments.scoring.success_interval import Z_95
from episodes.figures.comparison import compared_episodes
from episodes.figures.comparison.run_comparison import Pairing, RunFigure, pairing_of
from episodes.models import Run
from tests.episodes.ended import end_episode
from tests.episodes.reported import reported
from tests.stored import make_environment, make_run, make_task

pytestmark = pytest.mark.django_db


def played() -> tuple[Run, Run]:
    """Return two runs with two shared tasks, of which the second run does one better, and one task
    of the first."""
    first, second = make_run("first"), make_run("second")
    easy, hard, alone = (
        make_task({"question": "easy"}),
        make_task({"question": "hard"}),
        make_task(),
    )
    for run, task, reward in (
        *((first, easy, 1.0), (first, hard, 0.0), (first, hard, 0.0), (first, alone, 1.0)),
        *((second, easy, 1.0), (second, hard, 0.5)),
    ):
        end_episode(reward, run=run, task=task)
    return first, second


def figures_of(pairing: Pairing, name: str) -> Sequence[RunFigure]:
    """Return the figures of the runs by the measure with this name."""
    return {line.measure.name: line.runs for line in pairing.measures}[name]


def test_every_shared_task_counts_once() -> None:
    first, second = figures_of(pairing_of(played(), Definition(), 9), "return")
    assert (first.mean, first.attempts, first.evidence) == (0.5, 3, None)
    assert second.mean == 0.75 and second.evidence
    evidence = second.evidence
    assert (evidence.difference, evidence.wins, evidence.losses) == (0.25, 1, 0)


def test_success_and_steps_are_compared_on_the_same_tasks() -> None:
    runs, tasks = [make_run("first"), make_run("second")], [make_task(), make_task()]
    for task in tasks:
        end_episode(1.0, run=runs[0], task=task, steps_count=3)
        end_episode(0.2, run=runs[0], task=task, cause="expired", steps_count=5)
        end_episode(0.0, run=runs[0], task=task, cause="env_error", steps_count=90)
        end_episode(0.8, run=runs[1], task=task, steps_count=8)
    pairing = pairing_of(runs, Definition(), 9)
    assert [figure.mean for figure in figures_of(pairing, "success")] == [0.5, 0.0]
    assert [figure.mean for figure in figures_of(pairing, "length")] == [4.0, 8.0]
    assert [figure.mean for figure in figures_of(pairing, "return")] == [0.6, 0.8]
    names = [line.measure.name for line in pairing.measures]
    assert names == ["success", "length", "return"]  # first those by which the second is worse


def test_reported_tokens_are_compared_where_both_have_them() -> None:
    runs, tasks = [make_run("first"), make_run("second")], [make_task(), make_task()]
    for run, tokens in zip(runs, (100, 400), strict=True):
        for place, task in enumerate(tasks):
            episode = end_episode(run=run, task=task)
            if place or run == runs[0]:
                name = f"{run}-{place}"
                reports = [("old", "call", 7), ("new", "call", tokens), ("wrong", "guess", 1)]
                for event, join, output in reports:
                    values = {"episode": episode, "joined_by": join, "output_tokens": output}
                    reported(f"{name}-{event}", (), **values)
    first, second = figures_of(pairing_of(runs, Definition(), 9), "tokens")
    assert (first.mean, first.attempts, second.mean, second.attempts) == (100, 1, 400, 1)


def test_means_that_differ_by_rounding_alone_are_equal() -> None:
    runs, tasks = [make_run("first"), make_run("second")], [make_task(), make_task()]
    for run, reward in zip(runs, (0.3, 0.1 + 0.2), strict=True):
        for task in tasks:
            end_episode(reward, run=run, task=task)
    second = figures_of(pairing_of(runs, Definition(), 9), "return")[1]
    assert second.evidence and second.evidence.difference == 0.0


def test_huge_returns_have_an_interval(client: Client) -> None:
    runs, tasks = [make_run("first"), make_run("second")], [make_task(), make_task()]
    for run, rewards in zip(runs, ((1e300, -1e300), (-1e300, 1e300)), strict=True):
        for task, reward in zip(tasks, rewards, strict=True):
            end_episode(reward, run=run, task=task)
    reach = figures_of(pairing_of(runs, Definition(), 9), "return")[1].reach
    assert reach == pytest.approx(Z_95 * 1e290)
    assert client.get(f"/compare/?runs={runs[0].pk},{runs[1].pk}").status_code == 200


def test_tasks_that_got_worse_come_first_success_before_return() -> None:
    runs = [make_run("first"), make_run("second")]
    changes = {"gain": (0.0, 1.0), "less": (0.5, 0.3), "failure": (0.95, 0.85), "same": (1.0, 1.0)}
    names = dict[int, str]()
    for name, rewards in changes.items():
        names[(task := make_task()).pk] = name
        for run, reward in zip(runs, rewards, strict=True):
            end_episode(reward, run=run, task=task)
    tasks = pairing_of(runs, Definition(), 9).tasks
    assert [names[task.task] for task in tasks] == ["failure", "less", "same", "gain"]
    assert len(pairing_of(runs, Definition(), 2).tasks) == 2


def test_significant_regressions_come_first_and_can_be_listed_alone(client: Client) -> None:
    runs = [make_run("first"), make_run("second")]
    few, many, gain = make_task(), make_task(), make_task()
    for run, of_few, of_many, of_gain in ((runs[0], 1.0, 16, 0.0), (runs[1], 0.0, 4, 1.0)):
        end_episode(of_few, run=run, task=few)
        end_episode(of_gain, run=run, task=gain)
        for place in range(20):
            end_episode(float(place < of_many), run=run, task=many)
    pairing = pairing_of(runs, Definition(), 9)
    assert [task.task for task in pairing.tasks] == [many.pk, few.pk, gain.pk]
    assert pairing.worse == 2
    address = f"/compare/?runs={runs[0].pk},{runs[1].pk}"
    page = client.get(f"{address}&tasks=worse").content.decode()
    listed = re.findall(r'class="task-place" href="/tasks/(\d+)/"', page)
    assert listed == [str(many.pk), str(few.pk)]
    coloured = re.findall(
        r'data-verdict="\w*">([^<]+)</span> <span class="hint" title="Fisher', page
    )
    assert coloured == ["\N{MINUS SIGN}60.0 pp"]
    assert page.split('id="tasks"')[1].count("data-verdict") == 1
    file = client.get(f"{address}&tasks=worse&format=csv").content.decode()
    assert len(file.splitlines()) == 1 + 2 * 2


def test_failures_and_probes_are_left_out() -> None:
    first, second = played()
    for task in pairing_of((first, second), Definition(), 9).tasks:
        end_episode(0.0, run=second, cause="env_error", task_id=task.task)
    evidence = figures_of(pairing_of((first, second), Definition(), 9), "return")[1].evidence
    assert evidence and evidence.difference == 0.25


def test_the_page_shows_both_and_their_tasks(client: Client) -> None:
    first, second = played()
    page = client.get(f"/compare/?runs={first.pk},{second.pk}").content.decode()
    assert "2 shared tasks" in page and "hard" in page and "+0.25" in page


def test_runs_can_be_named(client: Client) -> None:
    first, second = played()
    page = client.get(f"/compare/?runs={first.name},{second.pk}").content.decode()
    assert "2 shared tasks" in page and f"runs={first.pk}%2C{second.pk}" in page


def test_without_a_shared_task_it_says_so(client: Client) -> None:
    runs = [make_run("first"), make_run("second")]
    for run in runs:
        end_episode(run=run)
    page = client.get(f"/compare/?runs={runs[0].pk},{runs[1].pk}").content.decode()
    assert "These runs have no task in common" in page


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ("1,x", "there is no run x"),
        ("998,999", "no run 998"),
        ("998", "no run 998"),
        ("1st,1st", "names 1st alone; add a"),
    ],
)
def test_anything_but_existing_runs_is_refused(client: Client, ids: str, expected: str) -> None:
    make_run("1st")
    answer = client.get(f"/compare/?runs={ids}")
    assert answer.status_code == 400 and expected in answer.content.decode()


def test_each_curve_has_the_definition_of_its_own_run(client: Client) -> None:
    for name, threshold in (("math", 0.9), ("guess", 0.5)):
        environment = make_environment(name, success_threshold=threshold)
        task = make_task(environment=environment)
        end_episode(0.7, environment=environment, task=task, run=make_run(f"of {name}"))
    first, second = make_run("of math"), make_run("of guess")
    page = client.get(f"/compare/?runs={first.pk},{second.pk}&window=5").content.decode()
    assert "&gt; 0.9" in page and "&gt; 0.5" in page
    query = re.search(r'data-query="([^"]*)"', page)
    assert query and parse_qs(unescape(query[1])) == {
        "runs": [f"{first.pk},{second.pk}"],
        "x": ["episode"],
        "y": ["success,return"],
        "window": ["5"],
    }


def test_two_runs_have_what_people_publish(client: Client) -> None:
    first, second = played()
    page = client.get(f"/compare/?runs={first.pk},{second.pk}").content.decode()
    text = " ".join(re.sub(r"<[^>]+>", " ", page).split())
    assert "Difference +0.25 95% interval 0.00 to +0.50, by bootstrap over the tasks" in text
    assert "Sign test p = 1 exact, two-sided: above on 1 task, below on 0" in text
    assert "Significant no about 14 more shared tasks would be needed" in text
    third = make_run("third")
    end_episode(run=third, task_id=pairing_of((first, second), Definition(), 9).tasks[0].task)
    address = f"/compare/?runs={first.pk},{second.pk},{third.pk}"
    assert "Sign test" not in client.get(address).content.decode()


def test_runs_are_matched_by_the_training_steps_that_both_have(client: Client) -> None:
    runs, tasks = [make_run("first"), make_run("second")], [make_task(), make_task()]
    for run, steps in zip(runs, ((0, 1, 2, 3), (2, 3, 4)), strict=True):
        for step in steps:
            for task in tasks:
                end_episode(float(step), run=run, task=task, run_step=step)
    address = f"/compare/?runs={runs[0].pk},{runs[1].pk}"

    def compared(query: str = "") -> tuple[str, list[float]]:
        context = client.get(address + query).context
        means = [figure.mean for figure in figures_of(context["pairing"], "return")]
        return context["query"].x, means

    assert compared() == ("step", [2.5, 2.5])
    assert compared("&from=3") == ("step", [3.0, 3.0])
    assert compared("&x=episode") == ("episode", [1.5, 3.0])
    page = client.get(address).content.decode()
    assert "over training steps 2 to 3, which both runs have reached" in page
    end_episode(run=make_run("bare"), task=tasks[0])
    assert compared(f",{make_run('bare').pk}") == ("episode", [1.5, 3.0, 1.0])


def test_steps_that_do_not_overlap_are_compared_nevertheless(client: Client) -> None:
    runs, task = [make_run("first"), make_run("second")], make_task()
    for step, run in enumerate(runs):
        end_episode(run=run, task=task, run_step=step)
    page = client.get(f"/compare/?runs={runs[0].pk},{runs[1].pk}").content.decode()
    assert "no training step in common" in page and "1 shared task" in page


@pytest.mark.parametrize("has_steps", [True, False])
def test_of_many_episodes_the_newest_are_read(
    client: Client, monkeypatch: pytest.MonkeyPatch, has_steps: bool
) -> None:
    monkeypatch.setattr(compared_episodes, "MAX_EPISODES", 4)
    runs, task = [make_run("first"), make_run("second")], make_task()
    for step in range(4):
        for run in runs:
            end_episode(float(step), run=run, task=task, run_step=step if has_steps else None)
    page = client.get(f"/compare/?runs={runs[0].pk},{runs[1].pk}")
    means = [figure.mean for figure in figures_of(page.context["pairing"], "return")]
    assert means == [2.5, 2.5]
    note = "Earlier steps are left out" if has_steps else "Only the newest 2 episodes of each run"
    assert note in page.content.decode()


def test_a_run_that_exploits_its_reward_is_named(client: Client) -> None:
    runs, tasks = [make_run("honest"), make_run("greedy")], [make_task() for _ in range(8)]
    for task in tasks:
        end_episode(0.95, run=runs[0], task=task)
        end_episode(0.0, run=runs[0], task=task)
        end_episode(0.8, run=runs[1], task=task)
    address = "/compare/?runs={},{}"
    text = "greedy succeeds less often (0% against 50%) although its return is higher"
    for pair in (runs, runs[::-1]):
        page = client.get(address.format(*(run.pk for run in pair))).content.decode()
        assert f"{text} (+0.80 against +0.48): check for reward hacking." in page
        assert 'href="/environments/math/doctor/?run=greedy"' in page
        assert '<span class="verdict">' in page  # its return is not called better


def test_a_difference_without_evidence_is_called_none(client: Client) -> None:
    first, second = played()
    page = client.get(f"/compare/?runs={first.pk},{second.pk}").content.decode()
    assert "No significant difference in success: first 50%, second 50%." in page


def test_settings_that_differ_are_shown_and_others_are_folded(client: Client) -> None:
    runs = [make_run("first"), make_run("second")]
    configs = (
        '{"lr": 1e-5, "seed": 1, "optimizer": {"name": "adam"}, "debug": true}',
        '{"lr": 2e-5, "seed": 1.0, "optimizer": {"name": "adam"}}',
    )
    for run, config, commit in zip(runs, configs, ("a" * 40, "b" * 40), strict=True):
        Run.objects.filter(pk=run.pk).update(config=config, git_commit=commit)
    context = client.get(f"/compare/?runs={runs[0].pk},{runs[1].pk}").context
    assert [tuple(setting) for setting in context["different"]] == [
        ("commit", ["a" * 40, "b" * 40]),
        ("lr", ["1e-05", "2e-05"]),
        ("debug", ["true", None]),
    ]
    assert [setting.name for setting in context["equal"]] == ["seed", "optimizer.name"]


def test_people_who_played_without_a_run_are_not_mentioned(client: Client) -> None:
    first, second = played()
    end_episode(player="human")
    page = client.get(f"/compare/?runs={first.pk},{second.pk}").content.decode()
    assert "of people (the filter" not in page
