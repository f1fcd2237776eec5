"""Bank: the tasks of `code`, made from the kinds of puzzles by a seeded generator. Driven by
`Code.list_tasks`.

To add a kind, write a function like those in the `on_` modules and list it in its `KINDS`; that
changes all tasks.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from functools import cache
from random import Random
from typing import Any

from environments.builtin.code.puzzles import on_lists, on_numbers, on_structures, on_texts
from environments.builtin.code.puzzles.puzzle import Kind, Puzzle

COUNTS = {"train": 500, "validation": 50, "test": 100}
PUBLIC, HIDDEN = 3, 10
"""Test cases of a task: those shown as examples, and those that decide the reward."""
TIME_LIMIT_SECONDS = 2
KINDS = [*on_numbers.KINDS, *on_texts.KINDS, *on_lists.KINDS, *on_structures.KINDS]
TEST_TOPICS = ("podium", "clock", "mask", "islands", "bookings")
"""Kinds that only the test split has, by topic."""
_MAX_DRAWS = 400


def tasks(split: str) -> list[dict[str, Any]]:
    """Return every task of the split, in order: dicts as `Task` of `code.py` describes them."""
    return [{**task} for task in _tasks(split)]


@cache
def _tasks(split: str) -> list[dict[str, Any]]:
    """Make the tasks once in a process: a split may be listed often, and its puzzles take 1 ms
    each."""
    texts: set[str] = set()
    return [_task(split, index, texts) for index in range(COUNTS[split])]


def kinds_of(split: str) -> list[tuple[int, Kind]]:
    """Return the kinds of puzzles of a split, each with its difficulty."""
    return [entry for entry in KINDS if split == "test" or _topic(entry[1]) not in TEST_TOPICS]


def _topic(kind: Kind) -> str:
    return kind.__name__.strip("_")


def _split_of(text: str) -> str:
    """Return the split of a puzzle, which the checksum of its text determines, so that no puzzle is
    in two splits."""
    place = zlib.crc32(text.encode()) % 13
    return "train" if place < 10 else "validation" if place == 10 else "test"


def _task(split: str, index: int, texts: set[str]) -> dict[str, Any]:
    """Return the task at `index`: its generator's first draw that belongs to the split and is not
    in `texts` yet."""
    random, kinds = Random(f"code/{split}/{index}"), kinds_of(split)
    while True:
        difficulty, kind = random.choice(kinds)
        puzzle = kind(random)
        if puzzle.text in texts or _split_of(puzzle.text) != split:
            continue
        cases = _cases(puzzle, random)
        if cases is not None:
            texts.add(puzzle.text)
            name = puzzle.signature.partition("(")[0]
            spec = {
                "question": puzzle.text,
                "function": name,
                "signature": puzzle.signature,
                "test_cases": cases,
            }
            more = {"topic": _topic(kind), "difficulty": difficulty, "seed": f"{split}/{index}"}
            return {**spec, "time_limit": TIME_LIMIT_SECONDS, **more}


def _cases(puzzle: Puzzle, random: Random) -> Sequence[dict[str, Any]] | None:
    """Return calls that all differ; None for a dull puzzle, where one answer would do for half of
    the hidden ones."""
    cases_by_args: dict[str, dict[str, Any]] = {}
    for _ in range(_MAX_DRAWS):
        args = list(puzzle.draw(random))
        case = {"args": args, "expected": puzzle.solve(*args)}
        cases_by_args.setdefault(json.dumps(args), case)
        if len(cases_by_args) == PUBLIC + HIDDEN:
            break
    cases = [{**case, "is_public": n < PUBLIC} for n, case in enumerate(cases_by_args.values())]
    results = [json.dumps(case["expected"]) for case in cases[PUBLIC:]]
    is_dull = len(results) < HIDDEN or max(map(results.count, results)) * 2 > HIDDEN
    return None if is_dull else cases
