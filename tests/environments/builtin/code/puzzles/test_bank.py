"""The tasks of the code environment."""

from __future__ import annotations

import copy
import hashlib
import json
from collections import Counter
from functools import cache
from random import Random
from typing import Any

import pytest

from environments.builtin.code.code import Code, Task
from environments.builtin.code.puzzles.bank import COUNTS, HIDDEN, KINDS, PUBLIC, TEST_TOPICS
from environments.builtin.code.puzzles.puzzle import Kind
from tests.rows import each

ALL = [kind for _, kind in KINDS]


@cache
def tasks_of(split: str) -> list[dict[str, Any]]:
    return list(Code.list_tasks(split))


def every_task() -> list[dict[str, Any]]:
    return [task for split in COUNTS for task in tasks_of(split)]


def test_it_keeps_the_tasks_it_always_had() -> None:
    """Recorded episodes refer to tasks by content: change the generator on purpose only, and this
    test with it."""
    assert {split: len(tasks_of(split)) for split in COUNTS} == COUNTS
    assert hashlib.sha256(json.dumps(every_task()).encode()).hexdigest()[:16] == "57db31fc71d5a460"


def test_no_puzzle_is_in_two_splits_or_twice() -> None:
    questions = Counter(task["question"] for task in every_task())
    assert len(questions) == sum(COUNTS.values())


@pytest.mark.parametrize("split", COUNTS)
def test_every_task_fits_the_schema(split: str) -> None:
    for spec in tasks_of(split):
        task = Task.model_validate(spec)
        assert task.signature.startswith(f"{task.function}(")
        assert [case.is_public for case in task.test_cases] == [True] * PUBLIC + [False] * HIDDEN


@pytest.mark.parametrize("split", COUNTS)
def test_no_single_answer_passes_more_than_half_of_the_hidden_tests(split: str) -> None:
    for task in tasks_of(split):
        results = Counter(
            json.dumps(case["expected"]) for case in task["test_cases"] if not case["is_public"]
        )
        assert max(results.values()) <= HIDDEN // 2, task["question"]


def test_train_has_every_kind_but_those_of_test_and_every_difficulty() -> None:
    topics = {split: {task["topic"] for task in tasks_of(split)} for split in COUNTS}
    assert len(topics["train"]) == 35 and len(KINDS) == 40
    assert (
        topics["test"] - topics["train"] == set(TEST_TOPICS)
        and topics["train"] >= topics["validation"]
    )
    assert {task["difficulty"] for task in tasks_of("train")} == {1, 2, 3, 4}


@each("kind", ALL, ids=[kind.__name__ for kind in ALL])
def test_a_kind_has_variants_and_plain_results(kind: Kind) -> None:
    assert len({kind(Random(seed)).text for seed in range(200)}) >= 10
    puzzle, random = kind(Random(1)), Random(2)
    for _ in range(50):
        args = puzzle.draw(random)
        before, result = copy.deepcopy(args), puzzle.solve(*args)
        assert args == before
        assert json.loads(json.dumps([list(args), result])) == [list(args), result]
