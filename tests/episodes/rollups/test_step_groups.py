"""Spans of a run count its groups, in whatever order their members end, as the episodes themselves
do."""

from __future__ import annotations

from random import Random
from statistics import fmean
from typing import Any

import pytest

from environments.scoring.convention import Convention
from environments.scoring.definition import Definition
from episodes.figures import summary_cover as covers
from episodes.figures.curves.curve_points import curve
from episodes.figures.groups.groups import groups_of
from episodes.figures.scopes import scope_of
from episodes.models import Run, StepGroup
from episodes.rollups import blocks, step_spans
from episodes.rollups.follower import catch_up, start_over
from tests.episodes.ended import end_episode
from tests.stored import make_run, make_task

pytestmark = pytest.mark.django_db(transaction=True)
DEFINITIONS = [
    Definition(),
    Definition("last"),
    Definition(convention=Convention(no_call="out")),
    Definition(convention=Convention("zero", "zero", "zero", "zero")),
    Definition(convention=Convention("out", "out")),
]


def play_groups(seed: int = 1, steps: int = 6) -> Run:
    """End the rollouts of four groups in each training step, in no order, some batches after
    others."""
    random, run = Random(seed), make_run()
    tasks = [make_task() for _ in range(4)]
    members = [(step, task) for step in range(steps) for task in tasks for _ in range(4)]
    random.shuffle(members)
    for place, (step, task) in enumerate(members):
        cause = random.choice(
            ["finished", "finished", "finished", "expired", "no_call", "env_error"]
        )
        value = 0.0 if cause == "no_call" else random.choice([0.0, 1.0, 1.0])
        end_episode(value, run=run, run_step=step, task=task, cause=cause)
        if place % 20 == 0:
            catch_up()
    catch_up()
    return run


def from_pages(run: Run, definition: Definition, steps: int = 6) -> list[tuple[int, int, Any]]:
    """Return by training step the number of groups and of flat ones, and the mean deviation, as
    their pages say."""
    found = []
    for step in range(steps):
        spreads = [
            one.spread for one in groups_of(run, step, definition).lines if one.spread.scored > 1
        ]
        deviation = round(fmean(one.deviation or 0.0 for one in spreads), 9) if spreads else None
        found.append((len(spreads), sum(one.is_flat for one in spreads), deviation))
    return found


def from_curve(run: Run, definition: Definition) -> list[tuple[Any, Any, Any]]:
    points = curve(scope_of(run), definition, "step").points
    rounded = [
        None if point.group_deviation is None else round(point.group_deviation, 9)
        for point in points
    ]
    return [
        (point.groups, point.flat_groups, mean) for point, mean in zip(points, rounded, strict=True)
    ]


def test_a_curve_counts_the_groups_that_the_pages_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ENDINGS", 8)
    monkeypatch.setattr("episodes.figures.curves.curve_points.EPISODES_A_POINT", 1)
    run = play_groups()
    expected = [from_pages(run, definition) for definition in DEFINITIONS]
    assert [from_curve(run, definition) for definition in DEFINITIONS] == expected
    monkeypatch.setattr(covers, "MAX_RAW_ENDINGS", 0)
    monkeypatch.setattr(covers, "MIN_RAW", 0)
    assert [from_curve(run, definition) for definition in DEFINITIONS] == expected


def test_merged_spans_have_the_groups_of_their_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in (
        (blocks, "BLOCK_ENDINGS", 8),
        (step_spans, "MAX_SPANS", 2),
        (covers, "MAX_RAW_ENDINGS", 0),
    ):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(covers, "MIN_RAW", 0)
    run = play_groups()
    found, each = from_curve(run, Definition()), from_pages(run, Definition())
    assert len(found) == 2
    for place in (0, 1):
        assert sum(one[place] for one in found) == sum(one[place] for one in each)
    sums = [sum(one[0] * one[2] for one in of) for of in (found, each)]
    assert sums[0] == pytest.approx(sums[1])


def test_they_are_counted_again_from_the_beginning() -> None:
    run = play_groups()
    before = sorted(StepGroup.objects.values_list("run_id", "run_step", "task_id", "state"))
    start_over()
    catch_up()
    assert sorted(StepGroup.objects.values_list("run_id", "run_step", "task_id", "state")) == before
    assert from_curve(run, Definition()) == from_pages(run, Definition())


def test_only_curves_of_runs_over_training_steps_have_groups() -> None:
    run = play_groups(steps=1)
    assert {point.groups for point in curve(scope_of(run), Definition()).points} == {None}


@pytest.mark.parametrize("most", [0, covers.MAX_RAW_ENDINGS])
def test_a_curve_without_groups_is_otherwise_the_same(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ENDINGS", 8)
    monkeypatch.setattr(covers, "MAX_RAW_ENDINGS", most)
    monkeypatch.setattr(covers, "MIN_RAW", most)
    run = play_groups()
    whole, without = (
        curve(scope_of(run), Definition(), "step", needs_groups=needs) for needs in (True, False)
    )
    assert {point.groups for point in without.points} == {None}
    assert [(one.x, one.mean, one.causes) for one in without.points] == [
        (one.x, one.mean, one.causes) for one in whole.points
    ]
