"""Tallies of groups say which groups are flat, and how returns deviate within them, as the returns
themselves do."""

from __future__ import annotations

import sys
from itertools import product
from random import Random
from statistics import pstdev

import pytest

from environments.scoring.convention import CONVENTION_PARTS, Convention
from environments.scoring.definition import Definition
from environments.scoring.returns import RETURNS
from episodes.attempts.group_states import MAX_FLAT_RANGE, GroupCount, GroupCounter, GroupState
from tests.rows import each

CONVENTIONS = [Convention(*values) for values in product(*CONVENTION_PARTS.values())]
KINDS = (
    "finished",
    "finished",
    "abandoned",
    "expired",
    "no_call",
    "interrupted",
    "env_error",
    "setup_failed",
)


def expected(rollouts: list[tuple[str, list[float | None]]], definition: Definition) -> GroupCount:
    """Return whether the rollouts are a group, whether it is flat, and its deviation, from the
    returns that count."""
    place, counted = RETURNS.index(definition.return_), list[float]()
    for kind, returns in rollouts:
        treatment, value = definition.convention.treatments[kind], returns[place]
        if treatment == "zero":
            counted.append(0.0)
        elif treatment == "keep" and value is not None:
            counted.append(value)
    is_group = len(counted) > 1
    is_flat = is_group and max(counted) - min(counted) <= MAX_FLAT_RANGE
    return GroupCount(is_group, is_flat, pytest.approx(pstdev(counted) if counted else 0.0))


@each("seed", range(40))
def test_a_tally_says_which_groups_are_flat_and_how_they_deviate(seed: int) -> None:
    random = Random(seed)
    values = random.sample([0.0, 1.0, 0.5, 0.5 + 1e-12, None], random.choice([1, 2, 3]))
    kinds = random.sample(KINDS, random.choice([1, 2, 3, 5]))
    rollouts = [
        (random.choice(kinds), [random.choice(values) for _ in RETURNS])
        for _ in range(random.choice([1, 2, 3, 8]))
    ]
    rollouts = [
        (kind, [0.0] * len(RETURNS) if kind == "no_call" else returns) for kind, returns in rollouts
    ]
    state = GroupState()
    for rollout in rollouts:
        state.add(*rollout)
        state = GroupState.from_text(state.text)
    for convention, return_ in product(CONVENTIONS, RETURNS):
        definition = Definition(return_, 0.9, convention)
        assert GroupCounter(definition).count(state.tally) == expected(rollouts, definition)


def test_huge_returns_have_a_finite_deviation() -> None:
    state = GroupState()
    for value in (sys.float_info.max, -sys.float_info.max):
        state.add("finished", [value] * len(RETURNS))
    assert GroupCounter(Definition()).count(state.tally).deviation == pytest.approx(1e290)
