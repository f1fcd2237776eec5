"""Curves from blocks equal those from episodes, by each axis and under each definition."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from django.db import connection

from environments.models import Environment, Split, SplitEntry, Task
from environments.scoring.definition import Definition, DefinitionAsked, definition_of
from episodes.analytics import scopes
from episodes.analytics import summary_cover as covers
from episodes.analytics import zoom as zooms
from episodes.analytics.block_queries import Axis
from episodes.analytics.curve import Curve, curve, curves, drawn
from episodes.analytics.scopes import Scope, filtered, scope_of
from episodes.analytics.summary_cover import cover
from episodes.analytics.zoom import Range
from episodes.models import Episode, Progress, Run
from episodes.rollups.blocks import BlocksPart
from episodes.rollups.follower import catch_up, start_over
from tests.episodes.ended import end_episode, end_episodes
from tests.episodes.playing import THRESHOLD, attempts, play, played
from tests.stored import make_run

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_follower")]
SUM = Definition("sum", THRESHOLD)
AXES: tuple[Axis, ...] = ("episode", "time", "step")
OF: dict[str, Callable[[], Scope]] = {
    "environment": lambda: scope_of(Environment.objects.get(name="echo")),
    "split": lambda: scope_of(Split.objects.get(environment__name="echo")),
    "run": lambda: scope_of(Run.objects.get(name="r1")),
}


@pytest.fixture
def blocks_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scope with a full block is drawn from blocks."""
    monkeypatch.setattr("episodes.analytics.zoom.MAX_RAW_ENDINGS", 0)
    monkeypatch.setattr(covers, "MAX_RAW_ENDINGS", 0)
    monkeypatch.setattr(covers, "MIN_RAW", 0)


def from_blocks(scope: Scope, definition: Definition, axis: Axis = "episode") -> Curve:
    """Return a curve from blocks that are as coarse as possible."""
    found = cover([scope], definition, axis, least_blocks=1, most_rows=0)[0]
    assert found.blocks
    return drawn(scope, found, definition, axis)


def exact(found: Curve) -> tuple[Any, ...]:
    """Return the figures that blocks hold exactly."""
    total = found.total
    assert total
    figures = total.episodes, total.n, total.scored, total.successes, total.success_low
    return *figures, pytest.approx(total.mean), pytest.approx(total.length_mean), found.excluded


@pytest.mark.parametrize("of", OF.values(), ids=OF)
def test_blocks_give_the_figures_that_episodes_give(of: Callable[[], Scope]) -> None:
    play(600)
    catch_up()
    expected = [exact(curve(of(), SUM, axis)) for axis in AXES]
    assert [exact(from_blocks(of(), SUM, axis)) for axis in AXES] == expected


def side_by_side() -> Scope:
    """Record three runs that take turns, each ahead of the one before, and episodes without a step between them."""
    runs = [make_run(f"side {place}") for place in range(3)]
    places = [(number // 5, number % 5) for number in range(300)]
    of_runs = ({"run": runs[place], "run_step": step + 40 * place} if place < 3 else {} for step, place in places)
    rewards = (float(place) if place < 3 else -1.0 for _, place in places)
    end_episodes(*((reward, {"player": "human", **run}) for reward, run in zip(rewards, of_runs, strict=True)))
    return scope_of(Environment.objects.get())


def points_of(found: Curve) -> list[tuple[Any, ...]]:
    names = ("x", "x_to", "episodes", "n", "first_end", "last_end", "mean", "success", "p10", "length_mean", "causes")
    return [tuple(getattr(point, name) for name in names) for point in found.points]


@pytest.mark.parametrize("shown", [None, Range(20, 70), Range(None, 39), Range(139, 500)])
def test_runs_side_by_side_share_the_points_of_their_steps(
    monkeypatch: pytest.MonkeyPatch, shown: Range | None
) -> None:
    scope = side_by_side()
    catch_up()
    expected = curve(scope, SUM, "step", shown=shown)
    for module, name in ((covers, "MAX_RAW_ENDINGS"), (covers, "MIN_RAW"), (zooms, "MAX_RAW_ENDINGS")):
        monkeypatch.setattr(module, name, 0)
    found = curve(scope, SUM, "step", shown=shown)
    assert points_of(found) == points_of(expected)
    assert found.stepless == expected.stepless == (0 if shown else 120)


def test_points_lie_in_order_though_a_run_goes_through_its_steps_again(blocks_alone: None) -> None:
    run = make_run("again")
    steps = [60] * 128 + [299, 0] * 64 + [299] * 256  # the second block reaches from one end to the other
    end_episodes(*((1.0, {"run": run, "run_step": step}) for step in steps))
    catch_up()
    places = [point.x for point in curve(scope_of(run), SUM, "step").points]
    assert len(places) > 1 and places == sorted(places)


@pytest.mark.parametrize("definition", [Definition("last", 0.0), Definition("max", THRESHOLD), Definition("mean", 0.1)])
def test_the_definition_can_be_switched(definition: Definition) -> None:
    play(300)
    catch_up()
    expected = attempts(played(environment__name="echo"))
    returns = [value for one in expected if (value := getattr(one, definition.column)) is not None]
    for found in (curve(OF["environment"](), definition), from_blocks(OF["environment"](), definition)):
        assert found.total
        assert (found.total.n, found.total.scored) == (len(expected), len(returns))
        assert found.total.successes == sum(value > definition.threshold for value in returns)
        assert found.total.mean == (pytest.approx(sum(returns) / len(returns)) if returns else None)


def test_percentiles_from_blocks_are_close() -> None:
    play(600)
    catch_up()
    total = from_blocks(OF["environment"](), Definition("max")).total
    expected = sorted(
        one.return_max for one in attempts(played(environment__name="echo")) if one.return_max is not None
    )
    assert total and total.p10 is not None and total.p90 is not None
    assert sum(value <= total.p10 for value in expected) / len(expected) == pytest.approx(0.1, abs=1 / 16)
    assert sum(value <= total.p90 for value in expected) / len(expected) == pytest.approx(0.9, abs=1 / 16)


def test_probes_and_failures_are_counted_apart() -> None:
    play(200)
    endings = played(environment__name="echo")
    found = curve(OF["environment"](), SUM)
    kinds = ("setup_failed", "env_error", "interrupted", "probe")
    assert found.excluded == {kind: sum(one.kind == kind for one in endings) for kind in found.excluded}
    assert set(found.excluded) == set(kinds)
    assert found.total and found.total.n + sum(found.excluded.values()) == len(endings)


def test_points_are_in_order_and_hold_everything() -> None:
    play(300)
    expected = len(played(environment__name="echo"))
    for axis, points in product(AXES, (1, 7, 500)):
        found = curve(OF["environment"](), SUM, axis, points=points)
        assert 1 <= len(found.points) <= points
        assert sum(point.episodes for point in found.points) == expected
        ends = [end for point in found.points for end in (point.x, point.x_to)]
        assert ends == sorted(ends)


def test_points_by_episode_follow_each_other_without_a_gap() -> None:
    play(300)
    catch_up()
    for found in (curve(OF["environment"](), SUM), from_blocks(OF["environment"](), SUM)):
        ends = [found.points[0].x - 0, *(point.x_to for point in found.points)]
        assert ends[:-1] == [point.x for point in found.points]
        assert ends[0] == 0 and ends[-1] == len(played(environment__name="echo"))


def test_a_point_leads_to_its_episodes() -> None:
    play(300)
    for point in curve(OF["environment"](), SUM).points:
        behind = played(environment__name="echo", end_number__range=(point.first_end, point.last_end))
        assert (point.episodes, point.n) == (len(behind), len(attempts(behind)))


def test_the_newest_have_no_points_smaller_than_others() -> None:
    play(900, cause="finished")
    catch_up()
    found = from_blocks(OF["environment"](), SUM)
    assert [point.episodes for point in found.points[:-1]] == [512] * (len(found.points) - 1)


def test_by_step_each_has_a_point() -> None:
    play(300)
    found = curve(OF["run"](), SUM, "step")
    assert [(point.x, point.x_to) for point in found.points] == [(step, step) for step in range(7)]
    assert found.points[2].episodes == len(played(run__name="r1", run_step=2))


def test_few_episodes_have_a_point_each() -> None:
    play(20, cause="finished")
    found = curve(OF["environment"](), SUM)
    assert [point.episodes for point in found.points] == [1] * len(played(environment__name="echo"))


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize(("low", "high"), [(0.2, 0.4), (0.6, None), (2.0, None)])
def test_a_zoom_shows_its_range(axis: Axis, low: float | None, high: float | None) -> None:
    play(300)
    whole = curve(OF["environment"](), SUM, axis)
    begin, end = whole.points[0].x, whole.points[-1].x_to
    shown = Range(*(None if share is None else begin + share * (end - begin) for share in (low, high)))
    found = curve(OF["environment"](), SUM, axis, shown=shown)
    assert all(shown.holds(point.x, point.x) for point in found.points)
    assert sum(point.episodes for point in found.points) == sum(shown.holds(x, x) for x in places(axis))


def places(axis: Axis) -> list[float]:
    """Return the places of the endings of `echo` on the axis."""
    endings = played(environment__name="echo")
    if axis == "episode":
        return list(range(len(endings)))
    if axis == "time":
        return [one.ended for one in endings]
    return [one.run_step for one in endings if one.run_step is not None]


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize(("low", "high"), [(0.2, 0.4), (None, 0.5), (0.6, None)])
def test_a_zoom_into_blocks_holds_the_range(
    blocks_alone: None, axis: Axis, low: float | None, high: float | None
) -> None:
    play(600)
    catch_up()
    scope = OF["environment"]()
    whole = curve(scope, SUM, axis)
    begin, end = whole.points[0].x, whole.points[-1].x_to
    shown = Range(*(None if share is None else begin + share * (end - begin) for share in (low, high)))
    found = curve(scope, SUM, axis, shown=shown)
    expected = [point for point in whole.points if shown.holds(point.x, point.x_to)]
    assert sum(point.episodes for point in found.points) == sum(point.episodes for point in expected)
    assert [point.first_end for point in found.points[:1]] == [point.first_end for point in expected[:1]]


def test_several_runs_are_drawn_at_once(blocks_alone: None) -> None:
    play(600)
    catch_up()
    runs = [scope_of(run) for run in Run.objects.order_by("name")]
    assert [exact(found) for found in curves(runs, SUM)] == [exact(curve(run, SUM)) for run in runs]


@pytest.mark.parametrize("names", [["r1"], ["r1", "r2"]])
def test_the_number_of_queries_does_not_grow(
    blocks_alone: None, names: list[str], django_assert_num_queries: Any
) -> None:
    play(600)
    catch_up()
    runs = [scope_of(run) for run in Run.objects.filter(name__in=names)]
    with django_assert_num_queries(6):
        curves(runs, SUM)


def test_what_blocks_do_not_know_yet_is_read_from_episodes(blocks_alone: None) -> None:
    play(500)
    catch_up()
    play(100, first=501)
    found = curve(OF["environment"](), SUM)
    assert found.total and found.total.episodes == len(played(environment__name="echo"))
    assert not found.is_bounded


def test_a_follower_far_behind_makes_a_curve_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(covers, "MAX_ENDINGS", 50)
    play(300)
    catch_up()
    play(100, first=301)
    found = curve(OF["environment"](), SUM)
    assert found.is_bounded and "still being counted" in found.note
    numbers = [one.number for one in played(environment__name="echo")]
    assert found.total and found.total.episodes == sum(not 300 < number <= 350 for number in numbers)


def test_endings_that_were_not_read_do_not_count_as_stepless(
    blocks_alone: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an upgrade, blocks are complete while spans are still being rebuilt."""
    play(20)
    catch_up()
    play(380, first=21)
    monkeypatch.setattr("episodes.rollups.follower.make_parts", lambda: [BlocksPart()])
    catch_up()
    monkeypatch.setattr(covers, "MAX_ENDINGS", 50)
    found = curve(OF["environment"](), SUM, "step")
    assert found.is_bounded
    assert found.stepless == 0


def test_among_the_newest_episodes_of_a_filter_stepless_ones_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run("some")
    for step in [*range(10)] * 3 + [None] * 20:
        end_episode(run=run, run_step=step, model="some")
    monkeypatch.setattr("episodes.analytics.scopes.MAX_ENDINGS", 25)
    found = curve(filtered(Episode.objects.filter(model="some"), ""), SUM, "step")
    assert found.is_bounded
    assert found.stepless == 20


def test_no_block_is_used_while_blocks_are_rebuilt() -> None:
    play(300)
    catch_up()
    start_over()
    assert Progress.objects.get(name="blocks").end_number < 0
    found = curve(OF["environment"](), SUM)
    assert found.total and found.total.episodes == len(played(environment__name="echo"))


def test_a_task_has_a_curve() -> None:
    play(200)
    task = Task.objects.filter(environment__name="echo").first()
    assert task
    found = curve(scope_of(task), SUM)
    assert found.total and found.total.episodes == len(played(task=task))


def test_a_curated_split_follows_its_present_tasks() -> None:
    play(200)
    environment = Environment.objects.get(name="echo")
    tasks = list(Task.objects.filter(environment=environment)[:3])
    split = Split.objects.create(environment=environment, name="hard", type="test", is_curated=True, version=2)
    for place, task in enumerate(tasks):
        SplitEntry.objects.create(split=split, position=place, task=task, until=2 if place == 2 else None)
    found = curve(scope_of(split), SUM)
    assert found.total and found.total.episodes == len(played(task__in=tasks[:2]))
    assert "are in the split now" in found.note


def test_of_a_filter_the_newest_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scopes, "MAX_ENDINGS", 50)
    play(200)
    for within in (None, Episode.objects.filter(environment__name="echo")):
        found = curve(filtered(Episode.objects.filter(environment__name="echo", model="m1"), "m1", within), SUM)
        newest = sorted(one.episode for one in played(environment__name="echo"))[-50:] if within else range(151, 201)
        assert found.total and found.total.episodes == len(played(model="m1", pk__in=newest, environment__name="echo"))
        assert found.is_bounded and "newest" in found.note


def test_nothing_played_is_an_empty_curve() -> None:
    environment = Environment.objects.create(name="echo", class_path="x")
    found = curve(scope_of(environment), definition_of(environment))
    assert (found.points, found.total, found.excluded, found.note) == ([], None, {}, "")


def test_definitions_come_from_the_environment_unless_given() -> None:
    environment = Environment(default_return="max", success_threshold=2.0)
    assert definition_of(environment) == Definition("max", 2.0)
    assert definition_of(environment, DefinitionAsked("last")) == Definition("last", 2.0)
    assert definition_of(environment, DefinitionAsked(threshold=0.0)) == Definition("max", 0.0)
    assert definition_of(None) == Definition("sum", 0.9)


if connection.vendor == "sqlite":  # its plan does not depend on the content of the tables

    @pytest.mark.parametrize("name", OF)
    def test_a_tail_is_read_along_an_index(name: str) -> None:
        play(3)
        plan = Episode.objects.filter(**{f"{name}_id": 1}, end_number__gt=5, status="ended").explain()
        assert f"INDEX episode_{name}_end ({name}_id=? AND end_number>?)" in plan
