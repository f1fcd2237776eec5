"""Diff: two JSON texts as lines that a person can compare. Pure; pages show what an edit changed with it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from environments.display.parts import indented, read_json

CONTEXT_LINES = 3
MAX_LINES = 400
"""Shown of one diff."""
MAX_COMPARED = 1_000
"""Lines between the first and the last difference that are compared one by one: its time grows with the square."""
_LINE_CHARACTERS = 2_000
_BREAK = re.compile(r"(?<!\\)((?:\\\\)*\\n)(?!\")")


@dataclass(frozen=True, slots=True)
class DiffLine:
    kind: Literal["same", "gone", "new", "skip"]
    """`skip` stands for lines that are not shown; its text says how many."""
    text: str

    @property
    def sign(self) -> str:
        return {"same": " ", "gone": "\N{MINUS SIGN}", "new": "+", "skip": ""}[self.kind]


def diff(before: str, after: str) -> list[DiffLine]:
    """What changed, with a few lines around it; empty: nothing that a person would see."""
    shown = list(_folded(list(_compared(_lines(before), _lines(after)))))
    if len(shown) <= MAX_LINES:
        return shown
    return [*shown[:MAX_LINES], DiffLine("skip", f"{len(shown) - MAX_LINES:,} more lines")]


def _lines(text: str) -> list[str]:
    """Indented JSON; a text of several lines within it goes over several lines too."""
    value = read_json(text)
    whole = _BREAK.sub(r"\1\n    ", value if isinstance(value, str) and value == text else indented(value))
    return [line[:_LINE_CHARACTERS] for line in whole.split("\n")]


def _compared(before: Sequence[str], after: Sequence[str]) -> Iterator[DiffLine]:
    """Every line of both, in order. What is equal at both ends is set apart first: edits are small, specs big."""
    head = _equal(before, after)
    tail = _equal(before[head:][::-1], after[head:][::-1])
    yield from (DiffLine("same", text) for text in before[:head])
    yield from _changed(before[head : len(before) - tail], after[head : len(after) - tail])
    yield from (DiffLine("same", text) for text in before[len(before) - tail :])


def _changed(before: Sequence[str], after: Sequence[str]) -> Iterator[DiffLine]:
    if max(len(before), len(after)) > MAX_COMPARED:
        yield from (DiffLine("gone", text) for text in before)
        yield from (DiffLine("new", text) for text in after)
        return
    for kind, a, b, c, d in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            yield from (DiffLine("same", text) for text in before[a:b])
        else:
            yield from (DiffLine("gone", text) for text in before[a:b])
            yield from (DiffLine("new", text) for text in after[c:d])


def _equal(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines are equal from the beginning on."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _folded(lines: Sequence[DiffLine]) -> Iterator[DiffLine]:
    """`lines` without those that are far from every change; where nothing changed, none."""
    changes = [n for n, line in enumerate(lines) if line.kind != "same"]
    near = {m for n in changes for m in range(n - CONTEXT_LINES, n + CONTEXT_LINES + 1)}
    for is_near, run in groupby(enumerate(lines), lambda item: item[0] in near):
        part = [line for _, line in run]
        if is_near or (changes and len(part) == 1):  # one line takes no more room than what would stand for it
            yield from part
        elif changes:
            yield DiffLine("skip", f"{len(part):,} lines as before")
