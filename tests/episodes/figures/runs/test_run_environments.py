"""A run in several environments has the same figures everywhere: each rollout counts by its own
environment."""

from __future__ import annotations

import re
from html import unescape
from random import Random
from statistics import fmean
from typing import Any, NamedTuple

import pytest
from django.test import Client

from environments.models import Task
from environments.scoring.definition import DefinitionOverrides, definition_of
from episodes.figures import summary_cover as covers
from episodes.models import CurveBlock, Episode, Run, StepSpan
from episodes.rollups.follower import catch_up
from tests.episodes.ended import end_episodes
from tests.stored import make_environment, make_run, make_split, make_task

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_follower", "client")]
CAUSES = ("finished", "finished", "finished", "abandoned", "expired", "no_call", "env_error")
ADDRESSES = ("", "return=last&no_call=out&expired=zero", "return=max&threshold=0.2&no_call=zero")


class Counted(NamedTuple):
    """Figures that the raw rows give."""

    n: int
    mean: float
    successes: int


@pytest.fixture(scope="module")
def record(committed_rows: None) -> None:
    """A run with 300 rollouts in two environments that differ in return, threshold and convention,
    and another one."""
    guess = make_environment(
        "guess", default_return="sum", success_threshold=0.75, declared_threshold=0.75
    )
    rule = {"success_threshold": 0.25, "declared_threshold": 0.25, "convention": "ozoz"}
    strict = make_environment("strict", default_return="max", **rule)
    tasks = [make_task(environment=one) for one in (guess, strict) for _ in range(4)]
    play(make_run("mixed"), tasks, 300)
    play(make_run("other"), tasks, 200)
    catch_up()


@pytest.fixture(params=["rows", "blocks"])
def run(request: pytest.FixtureRequest, record: None, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return the run, whose figures are read from its rollouts or from blocks of them."""
    if request.param == "blocks":
        monkeypatch.setattr("episodes.figures.curves.zoomed_range.MAX_RAW_ENDINGS", 0)
        monkeypatch.setattr(covers, "MAX_RAW_ENDINGS", 0)
        monkeypatch.setattr(covers, "MIN_RAW", 0)
    return Run.objects.get(name="mixed")


def play(run: Run, tasks: list[Task], count: int) -> None:
    random = Random(run.name)
    attempts = []
    for number in range(count):
        cause, task = random.choice(CAUSES), random.choice(tasks)
        value = 0.0 if cause == "no_call" else round(random.random(), 1)
        more = {"return_max": value / 2, "return_last": value / 4, "return_mean": value / 8}
        more |= {
            "task": task,
            "environment": task.environment,
            "run_step": number // 50,
            "cause": cause,
        }
        attempts.append((value, {**more, "run": run}))
    end_episodes(*attempts)


def counted(asked: DefinitionOverrides, **conditions: Any) -> Counted:
    """Return the figures of some episodes, each by the definition of its environment, from the
    episodes themselves."""
    values, successes = [], 0
    for episode in Episode.objects.filter(**conditions).select_related("environment"):
        definition = definition_of(episode.environment, asked)
        treatment = definition.convention.treatments[episode.cause]
        if treatment != "out":
            value = 0.0 if treatment == "zero" else episode.returns[definition.return_]
            assert value is not None
            values.append(value)
            successes += value > definition.threshold
    return Counted(len(values), pytest.approx(fmean(values)), successes)


def asked_in(address: str) -> DefinitionOverrides:
    given: dict[str, Any] = dict(part.split("=") for part in address.split("&") if part)
    threshold = float(given.pop("threshold")) if "threshold" in given else None
    return DefinitionOverrides(return_=given.pop("return", None), threshold=threshold, **given)


def shown(total: Any) -> Counted:
    return Counted(total.n, total.mean, total.successes)


def content(client: Client, address: str) -> Any:
    answer = client.get(address)
    assert answer.status_code == 200, answer.content
    return answer.json()


def in_api(found: Any) -> Counted:
    return Counted(found["n"], found["mean"], found["successes"])


def test_list_page_curve_comparison_and_api_say_the_same(client: Client, run: Run) -> None:
    for address in ADDRESSES:
        assert_the_same_everywhere(client, run, address)


def assert_the_same_everywhere(client: Client, run: Run, address: str) -> None:
    expected = counted(asked_in(address), run=run)
    [line] = [
        line for line, *_ in client.get(f"/runs/?{address}").context["rows"] if line.run == run
    ]
    page = client.get(f"/runs/{run.pk}/?{address}").context
    compared = client.get(
        f"/compare/?runs={run.pk},{Run.objects.get(name='other').pk}&x=episode&{address}"
    ).context
    found = [shown(line.outline.total), shown(page["line"].outline.total)]
    for drawn in (
        page["drawn"],
        compared["drawn"],
        client.get(f"/runs/curves/?run=mixed&{address}").context["drawn"],
    ):
        found.append(shown(drawn.series[0].curve.total))
        points = drawn.series[0].curve.points
        assert sum(point.successes for point in points) == expected.successes
    found.append(in_api(content(client, f"/api/runs/{run.pk}?{address}")["figures"]))
    found.append(in_api(content(client, f"/api/curves?run=mixed&x=step&{address}")["total"]))
    assert found == [expected] * len(found)
    for line in compared["pairing"].measures:
        if line.measure.name in ("success", "return"):
            assert line.runs[0].attempts == expected.n  # all tasks are shared


def test_each_environment_is_judged_alone_and_lists_have_what_is_counted(
    client: Client, run: Run
) -> None:
    for address in ("", "no_call=zero&threshold=0.3"):
        assert_each_is_judged_alone(client, run, address)


def assert_each_is_judged_alone(client: Client, run: Run, address: str) -> None:
    asked = asked_in(address)
    parts = client.get(f"/runs/{run.pk}/?{address}").context["judged"]
    assert [part.environment and part.environment.name for part in parts] == [
        "guess",
        "strict",
        None,
    ]
    for part in parts:
        of_part = {"environment": part.environment} if part.environment else {}
        expected = counted(asked, run=run, **of_part)
        assert shown(part.total) == expected
        assert (
            len(content(client, f"/api/episodes?limit=500&{part.attempts_query}")["results"])
            == expected.n
        )
        name = f"&environment={part.environment.name}" if part.environment else ""
        assert (
            in_api(content(client, f"/api/curves?run=mixed{name}&{address}")["total"]) == expected
        )
    drawn = client.get(f"/runs/curves/?run=mixed&by=environment&x=step&{address}").context["drawn"]
    figures = {one.label: shown(one.curve.total) for one in drawn.series}
    assert figures == {one.environment.name: shown(one.total) for one in parts[:-1]}


def test_an_explicit_definition_is_named_for_all_environments_together(
    client: Client, run: Run
) -> None:
    assert "each by its own" in client.get(f"/runs/{run.pk}/").content.decode()
    assert (
        "each by its own"
        not in client.get(f"/runs/{run.pk}/?threshold=0.3&return=sum").content.decode()
    )


def test_the_api_says_that_environments_differ(client: Client, run: Run) -> None:
    definition = content(client, f"/api/runs/{run.pk}")["figures"]["definition"]
    assert (definition["return"], definition["threshold"], definition["interrupted"]) == (
        None,
        None,
        "out",
    )
    each = {
        one["environment"]: (one["return"], one["threshold"]) for one in definition["environments"]
    }
    assert each == {"guess": ("sum", 0.75), "strict": ("max", 0.25)}
    assert content(client, "/api/curves?run=mixed")["definition"] == definition
    one = content(client, "/api/curves?run=mixed&environment=strict")["definition"]
    assert (one["return"], one["environments"]) == ("max", [])
    assert (
        "return=environment; threshold=environment"
        in client.get("/runs/curves/?run=mixed&format=csv")["X-Definition"]
    )


def test_the_task_by_task_comparison_takes_each_task_by_its_environment(
    client: Client, run: Run
) -> None:
    other = Run.objects.get(name="other")
    pairing = client.get(f"/compare/?runs={run.pk},{other.pk}&x=episode").context["pairing"]
    assert len(pairing.tasks) == 8
    for pair in pairing.tasks:
        success, returns = pair.figures[:2]
        for place, of_run in enumerate((run, other)):
            expected = counted(DefinitionOverrides(), run=of_run, task=pair.task)
            assert (pair.attempts[place], returns.means[place]) == (expected.n, expected.mean)
            assert success.means[place] == expected.successes / expected.n


def test_a_zoomed_curve_of_one_environment_has_the_points_of_the_whole(
    client: Client, run: Run
) -> None:
    address = "/api/curves?run=mixed&environment=strict"
    total = content(client, address)["total"]["episodes"]
    assert content(client, f"{address}&from=0&to=1000")["total"]["episodes"] == total
    for end in ("to=49", "from=50"):
        points = content(client, f"{address}&{end}")["points"]
        for point in points:
            found = Episode.objects.filter(environment__name="strict", run=run)
            ended = found.filter(end_number__lte=point["last_end"]).count()
            assert (ended, point["episodes"]) == (point["x_to"], point["x_to"] - point["x"])
        assert points[0]["x"] == 0 if end == "to=49" else points[-1]["x_to"] == total


def test_flat_groups_are_those_of_the_environments(client: Client, run: Run) -> None:
    both = content(client, "/api/curves?run=mixed&x=step")["points"]
    each = [
        content(client, f"/api/curves?run=mixed&environment={name}&x=step")["points"]
        for name in ("guess", "strict")
    ]
    for name in ("groups", "flat_groups"):
        assert (
            sum(point[name] for point in both)
            == sum(point[name] for points in each for point in points)
            > -1
        )


def test_a_row_holds_the_endings_of_one_environment(run: Run) -> None:
    for model in (CurveBlock, StepSpan):
        rows = model.objects.filter(scope="run", scope_id=run.pk)
        for row in rows.filter(first_end__gt=0):
            assert Episode.objects.filter(
                environment=row.environment_id, end_number=row.first_end, run=run
            ).exists()
        assert len(set(rows.values_list("environment_id", flat=True))) == 2


def test_its_page_names_the_environments_and_leads_to_their_curves(
    client: Client, run: Run
) -> None:
    page = client.get(f"/runs/{run.pk}/").content.decode()
    assert "each episode by the definition of its environment" in page
    [query] = re.findall(r'href="/runs/curves/\?([^"]*)">Curves by environment', page)
    assert [
        one.label for one in client.get(f"/runs/curves/?{unescape(query)}").context["drawn"].series
    ]
    listed = client.get("/runs/").content.decode()
    assert 'title="guess, strict"' in listed and "; strict: " in listed


def test_the_list_names_the_environment_whose_figures_it_shows(client: Client) -> None:
    run, split = make_run("two"), make_split(environment=make_environment("zoo"), name="train")
    task = make_task(environment=split.environment)
    end_episodes((1.0, {"run": run, "task": task, "split": split}))
    end_episodes(
        *[
            (0.0, {"run": run, "task": make_task(environment=one.environment), "split": one})
            for one in [make_split(environment=make_environment("ant"), name="test")]
        ]
    )
    [row] = [row for row in client.get("/runs/?text=two").context["rows"]]
    assert row.line.place == "zoo train"
    page = client.get("/runs/?text=two").content.decode()
    assert re.search(r'title="ant, zoo">zoo <span class="hint">\+1<', page)
