"""The differences of two JSON texts, line by line, with which admin pages show an edit."""

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
"""Maximum number of lines of a diff that are returned."""
MAX_COMPARED = 1_000
"""Lines between the first and the last difference up to which they are compared, in quadratic
time."""
_MAX_LINE_CHARACTERS = 2_000
MAX_WORDS = 300
"""Words of a line up to which they are compared, in quadratic time."""
MIN_COMMON = 0.4
"""Share of words that two lines have in common for the others to be marked."""
Kind = Literal["same", "gone", "new", "skip"]
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")
_BREAK = re.compile(r"(?<!\\)((?:\\\\)*\\n)(?!\")")


@dataclass(frozen=True, slots=True)
class DiffLine:
    kind: Kind
    """`skip` replaces lines that are not shown; its text says how many."""
    text: str
    words: tuple[tuple[str, bool], ...] = ()
    """The text in parts, each with whether it changed; empty: the line has no counterpart much like
    it."""

    @property
    def sign(self) -> str:
        return {"same": " ", "gone": "\N{MINUS SIGN}", "new": "+", "skip": ""}[self.kind]


def diff(before: str, after: str) -> list[DiffLine]:
    """Return the changed lines with a few lines around them, or an empty list if the indented texts
    are equal."""
    lines = list(_fold_same_lines(list(_compare(_lines(before), _lines(after)))))
    if len(lines) <= MAX_LINES:
        return lines
    return [*lines[:MAX_LINES], DiffLine("skip", f"{len(lines) - MAX_LINES:,} more lines")]


def _lines(text: str) -> list[str]:
    """Return the lines of indented JSON, in which texts of several lines stay on several lines."""
    value = read_json(text)
    whole = _BREAK.sub(
        r"\1\n    ", value if isinstance(value, str) and value == text else indented(value)
    )
    return [line[:_MAX_LINE_CHARACTERS] for line in whole.split("\n")]


def _compare(before: Sequence[str], after: Sequence[str]) -> Iterator[DiffLine]:
    """Return the lines of both texts in order.

    Equal lines at both ends are not compared, because most edits are small and most specs large.
    """
    head = _count_equal(before, after)
    tail = _count_equal(before[head:][::-1], after[head:][::-1])
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    yield from _lines_of("same", before[:head])
    if max(len(old), len(new)) > MAX_COMPARED:
        yield from _lines_of("gone", old)
        yield from _lines_of("new", new)
    else:
        matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
        for kind, a, b, c, d in matcher.get_opcodes():
            if kind == "equal":
                yield from _lines_of("same", old[a:b])
            else:
                for lines in _mark_words(old[a:b], new[c:d]):
                    yield from lines
    yield from _lines_of("same", before[len(before) - tail :])


def _lines_of(kind: Kind, texts: Sequence[str]) -> list[DiffLine]:
    return [DiffLine(kind, text) for text in texts]


def _mark_words(
    before: Sequence[str], after: Sequence[str]
) -> tuple[list[DiffLine], list[DiffLine]]:
    """Return the lines that were replaced and those in their places; if they are as many, with the
    words that changed in each pair."""
    old, new = _lines_of("gone", before), _lines_of("new", after)
    ours = [_WORDS.findall(text) for text in before]
    theirs = [_WORDS.findall(text) for text in after]
    for n, (own, other) in enumerate(zip(ours, theirs, strict=False)):
        if len(ours) != len(theirs) or max(len(own), len(other)) > MAX_WORDS:
            continue
        matcher = difflib.SequenceMatcher(None, own, other, autojunk=False)
        if matcher.ratio() < MIN_COMMON:
            continue
        steps = matcher.get_opcodes()
        parts = [("".join(own[a:b]), kind != "equal") for kind, a, b, _, _ in steps if b > a]
        old[n] = DiffLine("gone", before[n], tuple(parts))
        parts = [("".join(other[c:d]), kind != "equal") for kind, _, _, c, d in steps if d > c]
        new[n] = DiffLine("new", after[n], tuple(parts))
    return old, new


def _count_equal(before: Sequence[str], after: Sequence[str]) -> int:
    """Return the number of equal lines at the beginning."""
    for count, (a, b) in enumerate(zip(before, after, strict=False)):
        if a != b:
            return count
    return min(len(before), len(after))


def _fold_same_lines(lines: Sequence[DiffLine]) -> Iterator[DiffLine]:
    """Yield `lines` without those that are far from every change; nothing if there is no change."""
    changes = [n for n, line in enumerate(lines) if line.kind != "same"]
    near = {m for n in changes for m in range(n - CONTEXT_LINES, n + CONTEXT_LINES + 1)}
    for is_near, run in groupby(enumerate(lines), lambda item: item[0] in near):
        part = [line for _, line in run]
        # the line that replaces it would take as much space
        if is_near or (changes and len(part) == 1):
            yield from part
        elif changes:
            yield DiffLine("skip", f"{len(part):,} lines as before")
