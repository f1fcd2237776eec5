"""Tests of curves of the components of rewards."""

from __future__ import annotations

from typing import cast

import pytest

from environments.scoring.definition import Definition
from episodes.figures import summary_cover
from episodes.figures.block_queries import Axis
from episodes.figures.curves import components as module
from episodes.figures.curves.components import ComponentPoint, component_curves
from episodes.figures.curves.curve_points import curve
from episodes.figures.scopes import scope_of
from episodes.models import Episode, EpisodeComponent, RewardComponent, Run
from tests.episodes.ended import end_episode
from tests.stored import make_run

pytestmark = pytest.mark.django_db


def ended(step: int, cause: str = "finished", **values: float) -> Episode:
    episode = end_episode(run=make_run(), run_step=step, cause=cause)
    for name, value in values.items():
        component, _ = RewardComponent.objects.get_or_create(
            environment_id=episode.environment_id, name=name
        )
        figures = {
            "value_sum": value,
            "value_last": value,
            "value_max": value,
            "value_mean": value / 2,
        }
        EpisodeComponent.objects.create(episode=episode, component=component, **figures)
    return episode


def drawn(
    axis: str = "step", return_: str = "sum", names: list[str] | None = None
) -> dict[str, list[ComponentPoint]]:
    definition = Definition(return_, 0.5)  # type: ignore[arg-type]
    found = component_curves(
        curve(scope_of(Run.objects.get()), definition, cast(Axis, axis)), names
    )
    return {one.name: list(one.points) for one in found.series}


@pytest.mark.parametrize("axis", ["step", "episode", "time"])
def test_a_point_has_the_mean_of_the_attempts_that_report_a_component(axis: str) -> None:
    ended(1, format=1.0, length=-1.0)
    ended(1, format=0.0)
    ended(1, "env_error", format=9.0)
    found = drawn(axis)
    assert {name: sum(n for n, _ in points) for name, points in found.items()} == {
        "format": 2,
        "length": 1,
    }
    if axis == "step":
        assert found == {"format": [(2, 0.5)], "length": [(1, -1.0)]}


def test_a_component_that_appears_late_has_no_value_before() -> None:
    ended(1, format=1.0)
    ended(2, format=1.0, late=4.0)
    assert drawn()["late"] == [(0, None), (1, 4.0)]


def test_components_follow_the_definition_of_the_return() -> None:
    ended(1, format=1.0)
    assert drawn(return_="mean") == {"format": [(1, 0.5)]}


def test_components_can_be_picked() -> None:
    ended(1, format=1.0, length=2.0)
    assert drawn(names=["length", "none"]) == {"length": [(1, 2.0)], "none": [(0, None)]}


def test_components_that_are_left_out_are_counted() -> None:
    ended(1, **{f"part_{number}": 1.0 for number in range(11)})
    found = component_curves(curve(scope_of(Run.objects.get()), Definition("sum", 0.5), "step"))
    assert (len(found.series), found.note) == (
        8,
        "Of 11 components, the 8 that most episodes report are shown.",
    )


def test_of_many_episodes_the_newest_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_EPISODES", 2)
    for step in (1, 2, 3):
        ended(step, format=1.0)
    assert [point.n for point in drawn()["format"]] == [0, 1, 1]


def test_it_is_told_if_components_of_many_episodes_are_still_to_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended(1, format=1.0)
    found = curve(scope_of(Run.objects.get()), Definition("sum", 0.5))
    assert component_curves(found).note == ""
    monkeypatch.setattr(summary_cover, "MAX_UNCOUNTED", 0)
    assert component_curves(found).note == summary_cover.STILL_COUNTED


def test_the_mean_of_a_single_attempt_has_a_wide_interval() -> None:
    for step, values in ((0, [0.0, 1.0] * 8), (1, [1.0])):
        for value in values:
            ended(step, tests=value)
    whole = curve(scope_of(Run.objects.get()), Definition("sum", 0.5), "step")
    [line] = component_curves(whole).series
    (low, high), (one_low, one_high) = line.intervals
    assert (low, high) == (pytest.approx(0.242, abs=1e-3), pytest.approx(0.758, abs=1e-3))
    assert one_low < 0 < 1 < one_high
