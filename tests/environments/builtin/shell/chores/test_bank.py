"""The tasks of the shell environment."""

from __future__ import annotations

import json
from functools import cache
from random import Random
from typing import Any

import pytest

from environments.builtin.shell.chores.bank import COUNTS, KINDS, TEST_TOPICS
from environments.builtin.shell.chores.chore import Kind
from environments.builtin.shell.shell import Command, Shell, Task
from tests.rows import each
from tests.sandboxed import needs_bubblewrap

ALL = [kind for _, kind in KINDS]
IDS = [kind.__name__.strip("_") for kind in ALL]


@cache
def tasks_of(split: str) -> list[dict[str, Any]]:
    return list(Shell.list_tasks(split))


def every_task() -> list[dict[str, Any]]:
    return [task for split in COUNTS for task in tasks_of(split)]


@pytest.mark.parametrize(("split", "count"), COUNTS.items())
def test_it_makes_the_same_tasks_every_time(split: str, count: int) -> None:
    assert len(tasks_of(split)) == count
    assert Shell.list_tasks(split) == tasks_of(split)


def test_no_chore_is_in_two_splits_or_twice() -> None:
    content = {json.dumps([task["instruction"], task["files"]]) for task in every_task()}
    assert len(content) == sum(COUNTS.values())


@pytest.mark.parametrize("split", COUNTS)
def test_nothing_is_reached_at_the_start(split: str) -> None:
    for spec in tasks_of(split):
        assert Shell(spec).progress == 0.0, spec["seed"]
        assert set(Task.model_validate(spec).keep + Task.model_validate(spec).gone) <= set(
            spec["files"]
        )


def test_train_has_every_kind_but_those_of_test() -> None:
    topics = {split: {task["topic"] for task in tasks_of(split)} for split in COUNTS}
    assert topics["train"] == set(IDS) - set(TEST_TOPICS) and (
        len(topics["train"]),
        len(KINDS),
    ) == (12, 15)
    assert (
        topics["test"] - topics["train"] == set(TEST_TOPICS)
        and topics["train"] >= topics["validation"]
    )


@needs_bubblewrap
@each("seed", range(3))
@each("kind", ALL, ids=IDS)
def test_every_kind_can_be_done(kind: Kind, seed: int) -> None:
    chore = kind(Random(seed))
    episode = Shell({**chore.spec(), "max_steps": 5})
    step, end = episode.bash(Command(command=chore.solution)), episode.submit()
    assert (step.reward, end.reward) == (pytest.approx(0.7), 0.3), (
        chore.instruction,
        step.blocks,
        end.blocks,
    )
