"""Groups of attempts at one task in one training step."""

from __future__ import annotations

import sys

import pytest

from environments.scoring.definition import Definition
from environments.scoring.returns import RETURNS
from episodes.attempts.group_states import GroupCounter, GroupState
from episodes.figures.groups.groups import group_of, groups_of
from episodes.figures.spreads import spread_of
from tests.stored import make_episode, make_run, make_task

SUM = Definition()


def test_equal_returns_deviate_by_nothing_whatever_their_rounding() -> None:
    assert spread_of([0.1] * 7).is_flat
    assert not spread_of([0.1, 0.2]).is_flat and not spread_of([0.1]).is_flat


@pytest.mark.parametrize("other", [1.9e-8, 2.1e-8])
def test_a_group_of_any_size_is_flat_exactly_where_rollups_count_it_as_flat(other: float) -> None:
    returns = [0.0] * 20 + [other]
    state = GroupState()
    for value in returns:
        state.add("finished", [value] * len(RETURNS))
    assert spread_of(returns).is_flat == bool(GroupCounter(SUM).count(state.tally).flat)


@pytest.mark.parametrize("size", [1.0, 1e155, sys.float_info.max])
def test_advantages_are_the_same_whatever_the_size_of_returns(size: float) -> None:
    spread = spread_of([size, size, size, -size])
    assert (spread.mean, spread.deviation) == (size / 2, pytest.approx(size * 0.75**0.5))
    assert spread.advantage(-size) == pytest.approx(-(3**0.5), abs=1e-3)


@pytest.mark.django_db
def test_what_is_no_attempt_stays_out_of_the_mean() -> None:
    task, run = make_task(), make_run()
    for value, cause in [(1.0, "finished"), (0.0, "abandoned"), (-9.0, "env_error")]:
        make_episode(task=task, run=run, run_step=2, return_sum=value, cause=cause)
    group = group_of(task, run, 2, SUM)
    assert (group.spread.scored, group.spread.mean, group.spread.deviation) == (2, 0.5, 0.5)
    assert [one.advantage for one in group.attempts] == [
        pytest.approx(1, abs=1e-3),
        pytest.approx(-1, abs=1e-3),
        None,
    ]


@pytest.mark.django_db
def test_groups_of_a_step_are_listed_by_task() -> None:
    run, tasks = make_run(), [make_task(), make_task()]
    for task in tasks:
        make_episode(task=task, run=run, run_step=2, return_sum=1.0)
        make_episode(task=task, run=run, run_step=3)
    lines = groups_of(run, 2, SUM).lines
    assert [(line.task, line.episodes, line.spread.low) for line in lines] == [
        (task.pk, 1, 1.0) for task in tasks
    ]
