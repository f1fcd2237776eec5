"""Bank: the tasks of `shell`, made from the kinds of chores by a seeded generator. Driven by
`Shell.list_tasks`.

To add a kind, write a function like those in the `on_` modules and list it in its `KINDS`; that
changes all tasks.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from random import Random
from typing import Any

from environments.builtin.shell.chores import on_files, on_texts
from environments.builtin.shell.chores.chore import Kind

COUNTS = {"train": 300, "validation": 30, "test": 60}
KINDS = [*on_files.KINDS, *on_texts.KINDS]
TEST_TOPICS = ("unique", "trail", "join")
"""Kinds that only the test split has, by topic."""
_STEPS = {1: 12, 2: 16, 3: 20}
"""Numbers of steps by difficulty."""
_MAX_DRAWS = 10_000


def tasks(split: str) -> list[dict[str, Any]]:
    """Return every task of the split, in order: dicts as `Task` of `shell.py` describes them."""
    contents: set[str] = set()
    return [_task(split, index, contents) for index in range(COUNTS[split])]


def solution_of(spec: Mapping[str, Any]) -> str:
    """Return the command that solves a task of this bank, found by drawing chores with its seed
    again.

    Raises: ValueError for a task that is not from this bank.
    """
    seed = str(spec.get("seed"))
    random, kinds = Random(f"shell/{seed}"), kinds_of(seed.partition("/")[0])
    for _ in range(_MAX_DRAWS):
        _, kind = random.choice(kinds)
        chore = kind(random)
        if chore.instruction == spec["instruction"] and dict(chore.files) == spec["files"]:
            return chore.solution
    raise ValueError("The task is not from the bank of chores, so its solution is not known.")


def kinds_of(split: str) -> list[tuple[int, Kind]]:
    """Return the kinds of chores of a split, each with its difficulty."""
    return [entry for entry in KINDS if split == "test" or _topic(entry[1]) not in TEST_TOPICS]


def _topic(kind: Kind) -> str:
    return kind.__name__.strip("_")


def _split_of(content: str) -> str:
    """Return the split of a chore, which the checksum of its content determines, so that no chore
    is in two splits."""
    place = zlib.crc32(content.encode()) % 13
    return "train" if place < 10 else "validation" if place == 10 else "test"


def _task(split: str, index: int, contents: set[str]) -> dict[str, Any]:
    """Return the task at `index`: its generator's first draw that belongs to the split and is not
    in `contents` yet."""
    random, kinds = Random(f"shell/{split}/{index}"), kinds_of(split)
    while True:
        difficulty, kind = random.choice(kinds)
        spec = kind(random).spec()
        content = json.dumps(spec)
        if content not in contents and _split_of(content) == split:
            contents.add(content)
            more = {
                "max_steps": _STEPS[difficulty],
                "topic": _topic(kind),
                "difficulty": difficulty,
            }
            return {**spec, **more, "seed": f"{split}/{index}"}
