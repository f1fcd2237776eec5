"""Curves from blocks equal those from episodes, by each axis and under each definition. All tests
read one record."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from environments.models import Environment, Split, SplitEntry, Task
from environments.scoring.definition import Definition
from episodes.figures import scopes
from episodes.figures.block_queries import Axis
from episodes.figures.curves.curve_points import Curve, curve, curves
from episodes.figures.curves.zoomed_range import Range
from episodes.figures.scopes import Scope, filtered, scope_of
from episodes.models import Episode, Run
from episodes.rollups.follower import catch_up
from tests.episodes.drawing import AXES, OF, SUM, from_blocks
from tests.episodes.playing import THRESHOLD, attempts, play, played
from tests.rows import each

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("record")]
EPISODES = 600


@pytest.fixture(scope="module")
def record(committed_rows: None) -> None:
    """Episodes of two environments and their rollups. No test changes them, because each takes back
    what it writes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("episodes.rollups.follower.Follower.start", lambda follower: None)
        play(EPISODES)
    catch_up()


def exact(found: Curve) -> tuple[Any, ...]:
    """Return the figures that blocks hold exactly."""
    total = found.total
    assert total
    figures = total.episodes, total.n, total.scored, total.successes, total.success_low
    return *figures, pytest.approx(total.mean), pytest.approx(total.length_mean), found.excluded


@pytest.mark.parametrize("of", OF.values(), ids=OF)
def test_blocks_give_the_figures_that_episodes_give(of: Callable[[], Scope]) -> None:
    expected = [exact(curve(of(), SUM, axis)) for axis in AXES]
    assert [exact(from_blocks(of(), SUM, axis)) for axis in AXES] == expected


@pytest.mark.parametrize(
    "definition", [Definition("last", 0.0), Definition("max", THRESHOLD), Definition("mean", 0.1)]
)
def test_the_definition_can_be_switched(definition: Definition) -> None:
    expected = attempts(played(environment__name="echo"))
    returns = [value for one in expected if (value := getattr(one, definition.column)) is not None]
    for found in (
        curve(OF["environment"](), definition),
        from_blocks(OF["environment"](), definition),
    ):
        assert found.total
        assert (found.total.n, found.total.scored) == (len(expected), len(returns))
        assert found.total.successes == sum(value > definition.threshold for value in returns)
        assert found.total.mean == (pytest.approx(sum(returns) / len(returns)) if returns else None)


def test_percentiles_from_blocks_are_close() -> None:
    total = from_blocks(OF["environment"](), Definition("max")).total
    expected = sorted(
        one.return_max
        for one in attempts(played(environment__name="echo"))
        if one.return_max is not None
    )
    assert total and total.p10 is not None and total.p90 is not None
    assert sum(value <= total.p10 for value in expected) / len(expected) == pytest.approx(
        0.1, abs=1 / 16
    )
    assert sum(value <= total.p90 for value in expected) / len(expected) == pytest.approx(
        0.9, abs=1 / 16
    )


def test_probes_and_failures_are_counted_apart() -> None:
    endings = played(environment__name="echo")
    found = curve(OF["environment"](), SUM)
    kinds = ("setup_failed", "env_error", "interrupted", "probe")
    assert found.excluded == {
        kind: sum(one.kind == kind for one in endings) for kind in found.excluded
    }
    assert set(found.excluded) == set(kinds)
    assert found.total and found.total.n + sum(found.excluded.values()) == len(endings)


def test_points_are_in_order_and_hold_everything() -> None:
    expected = len(played(environment__name="echo"))
    for axis, points in product(AXES, (1, 7, 500)):
        found = curve(OF["environment"](), SUM, axis, points=points)
        assert 1 <= len(found.points) <= points
        assert sum(point.episodes for point in found.points) == expected
        ends = [end for point in found.points for end in (point.x, point.x_to)]
        assert ends == sorted(ends)


def test_points_by_episode_follow_each_other_without_a_gap() -> None:
    for found in (curve(OF["environment"](), SUM), from_blocks(OF["environment"](), SUM)):
        ends = [found.points[0].x - 0, *(point.x_to for point in found.points)]
        assert ends[:-1] == [point.x for point in found.points]
        assert ends[0] == 0 and ends[-1] == len(played(environment__name="echo"))


def test_a_point_leads_to_its_episodes() -> None:
    for point in curve(OF["environment"](), SUM).points:
        behind = played(
            environment__name="echo", end_number__range=(point.first_end, point.last_end)
        )
        assert (point.episodes, point.n) == (len(behind), len(attempts(behind)))


def test_by_step_each_has_a_point() -> None:
    found = curve(OF["run"](), SUM, "step")
    assert [(point.x, point.x_to) for point in found.points] == [
        (step, step) for step in range(EPISODES // 50)
    ]
    assert found.points[2].episodes == len(played(run__name="r1", run_step=2))


@each("axis", AXES)
@each(("low", "high"), [(0.2, 0.4), (0.6, None), (2.0, None)])
def test_a_zoom_shows_its_range(axis: Axis, low: float | None, high: float | None) -> None:
    whole = curve(OF["environment"](), SUM, axis)
    begin, end = whole.points[0].x, whole.points[-1].x_to
    shown = Range(
        *(None if share is None else begin + share * (end - begin) for share in (low, high))
    )
    found = curve(OF["environment"](), SUM, axis, zoom=shown)
    assert all(shown.holds(point.x, point.x) for point in found.points)
    assert sum(point.episodes for point in found.points) == sum(
        shown.holds(x, x) for x in places(axis)
    )


def places(axis: Axis) -> list[float]:
    """Return the places of the endings of `echo` on the axis."""
    endings = played(environment__name="echo")
    if axis == "episode":
        return list(range(len(endings)))
    if axis == "time":
        return [one.ended for one in endings]
    return [one.run_step for one in endings if one.run_step is not None]


@each("axis", AXES)
@each(("low", "high"), [(0.2, 0.4), (None, 0.5), (0.6, None)])
def test_a_zoom_into_blocks_holds_the_range(
    blocks_alone: None, axis: Axis, low: float | None, high: float | None
) -> None:
    scope = OF["environment"]()
    whole = curve(scope, SUM, axis)
    begin, end = whole.points[0].x, whole.points[-1].x_to
    shown = Range(
        *(None if share is None else begin + share * (end - begin) for share in (low, high))
    )
    found = curve(scope, SUM, axis, zoom=shown)
    expected = [point for point in whole.points if shown.holds(point.x, point.x_to)]
    assert sum(point.episodes for point in found.points) == sum(
        point.episodes for point in expected
    )
    assert [point.first_end for point in found.points[:1]] == [
        point.first_end for point in expected[:1]
    ]


def test_several_runs_are_drawn_at_once(blocks_alone: None) -> None:
    runs = [scope_of(run) for run in Run.objects.order_by("name")]
    assert [exact(found) for found in curves(runs, SUM)] == [exact(curve(run, SUM)) for run in runs]


@pytest.mark.parametrize("names", [["r1"], ["r1", "r2"]])
def test_the_number_of_queries_does_not_grow(
    blocks_alone: None, names: list[str], django_assert_num_queries: Any
) -> None:
    runs = [scope_of(run) for run in Run.objects.filter(name__in=names)]
    with django_assert_num_queries(5):
        curves(runs, SUM)


def test_a_task_has_a_curve() -> None:
    task = Task.objects.filter(environment__name="echo").first()
    assert task
    found = curve(scope_of(task), SUM)
    assert found.total and found.total.episodes == len(played(task=task))


def test_a_curated_split_follows_its_present_tasks() -> None:
    environment = Environment.objects.get(name="echo")
    tasks = list(Task.objects.filter(environment=environment)[:3])
    split = Split.objects.create(
        environment=environment, name="hard", type="test", is_curated=True, version=2
    )
    for place, task in enumerate(tasks):
        SplitEntry.objects.create(
            split=split, position=place, task=task, until=2 if place == 2 else None
        )
    found = curve(scope_of(split), SUM)
    assert found.total and found.total.episodes == len(played(task__in=tasks[:2]))
    assert "are in the split now" in found.note


def test_of_a_filter_the_newest_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scopes, "MAX_ENDINGS", 50)
    for within in (None, Episode.objects.filter(environment__name="echo")):
        found = curve(
            filtered(Episode.objects.filter(environment__name="echo", model="m1"), "m1", within),
            SUM,
        )
        newest = (
            sorted(one.episode for one in played(environment__name="echo"))[-50:]
            if within
            else range(EPISODES - 49, EPISODES + 1)
        )
        assert found.total and found.total.episodes == len(
            played(model="m1", pk__in=newest, environment__name="echo")
        )
        assert found.is_bounded and "newest" in found.note
