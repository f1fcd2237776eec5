"""Alignment: two transcripts beside each other, step by step, by what was called with what. Pure.

Steps that call the same tool with the same input (whatever the order of its keys) belong together, as `diff` finds
them; what stands between two such places is laid side by side in order.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

Verdict = Literal["same", "answer", "call", "left", "right"]
"""same call and answer; same call, another answer; another call; only on the left; only on the right"""


@dataclass(frozen=True, slots=True)
class Trace:
    """One step, as far as it is compared. Equal values mean equal content."""

    call: Hashable
    answer: Hashable


@dataclass(frozen=True, slots=True)
class Row:
    left: int | None
    """Place in the left sequence; None: there is nothing beside the right one."""
    right: int | None
    verdict: Verdict


def align(left: Sequence[Trace], right: Sequence[Trace]) -> list[Row]:
    """Every step of both, once and in order."""
    start = _common(left, right)
    matcher = SequenceMatcher(
        None, [one.call for one in left[start:]], [one.call for one in right[start:]], autojunk=False
    )
    rows = [_row(left, right, n, n) for n in range(start)]
    for _, left_from, left_to, right_from, right_to in matcher.get_opcodes():
        for n, m in _side_by_side(range(left_from, left_to), range(right_from, right_to)):
            rows.append(_row(left, right, None if n is None else start + n, None if m is None else start + m))
    return rows


def first_divergence(rows: Sequence[Row]) -> int | None:
    """Place of the first row in which another call was made; None: none was."""
    return next((place for place, row in enumerate(rows) if row.verdict in ("call", "left", "right")), None)


def _common(left: Sequence[Trace], right: Sequence[Trace]) -> int:
    """Length of the common beginning: the matcher's time grows with the square of what is left."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((n for n, (a, b) in pairs if a.call != b.call), min(len(left), len(right)))


def _side_by_side(left: range, right: range) -> Iterator[tuple[int | None, int | None]]:
    for n in range(max(len(left), len(right))):
        yield left[n] if n < len(left) else None, right[n] if n < len(right) else None


def _row(left: Sequence[Trace], right: Sequence[Trace], n: int | None, m: int | None) -> Row:
    if n is None or m is None:
        return Row(n, m, "left" if m is None else "right")
    if left[n].call != right[m].call:
        return Row(n, m, "call")
    return Row(n, m, "same" if left[n].answer == right[m].answer else "answer")
