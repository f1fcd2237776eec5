"""EpisodeComparison: two episodes, aligned, and a window of the rows with everything that was said. No request, no HTML.

Alignment: two transcripts beside each other, step by step, by what was called with what. Pure.

Steps that call the same tool with the same input (whatever the order of its keys) belong together, as `diff` finds
them; what stands between two such places is laid side by side in order.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal

from environments.display.parts import read_json
from episodes.models import Episode
from episodes.transcript.cards import Card, card_of
from episodes.transcript.steps import TranscriptView, lines_at

Verdict = Literal["same", "answer", "call", "left", "right"]
"""same call and answer; same call, another answer; another call; only on the left; only on the right"""


@dataclass(frozen=True, slots=True)
class Trace:
    """One step, as far as it is compared. Equal values mean equal content."""

    call: Hashable
    answer: Hashable


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    left: int | None
    """Place in the left sequence; None: there is nothing beside the right one."""
    right: int | None
    verdict: Verdict


def align(left: Sequence[Trace], right: Sequence[Trace]) -> list[ComparisonRow]:
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


def first_divergence(rows: Sequence[ComparisonRow]) -> int | None:
    """Place of the first row in which another call was made; None: none was."""
    return next((place for place, row in enumerate(rows) if row.verdict in ("call", "left", "right")), None)


def _common(left: Sequence[Trace], right: Sequence[Trace]) -> int:
    """Length of the common beginning: the matcher's time grows with the square of what is left."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((n for n, (a, b) in pairs if a.call != b.call), min(len(left), len(right)))


def _side_by_side(left: range, right: range) -> Iterator[tuple[int | None, int | None]]:
    for n in range(max(len(left), len(right))):
        yield left[n] if n < len(left) else None, right[n] if n < len(right) else None


def _row(left: Sequence[Trace], right: Sequence[Trace], n: int | None, m: int | None) -> ComparisonRow:
    if n is None or m is None:
        return ComparisonRow(n, m, "left" if m is None else "right")
    if left[n].call != right[m].call:
        return ComparisonRow(n, m, "call")
    return ComparisonRow(n, m, "same" if left[n].answer == right[m].answer else "answer")


MAX_COMPARED = 1_000
"""Steps of each episode, from the beginning: finding what belongs together takes the square of their number."""
ROWS = 40


@dataclass(frozen=True, slots=True)
class Beside:
    """One row, with its place among all of them."""

    place: int
    left: Card | None
    right: Card | None
    verdict: str
    is_divergence: bool
    """Whether it is the first in which another call was made."""


@dataclass(frozen=True, slots=True)
class EpisodeComparison:
    rows: list[Beside]
    first: int
    total: int
    """Rows of the whole comparison."""
    divergence: int | None
    counts: Counter[str]
    """Rows by verdict."""
    is_all: bool
    """False when an episode has more steps than are compared."""

    @property
    def previous(self) -> int | None:
        return max(0, self.first - ROWS) if self.first else None

    @property
    def next(self) -> int | None:
        return self.first + ROWS if self.first + ROWS < self.total else None


def comparison_of(left: Episode, right: Episode, view: TranscriptView, place: int = 0) -> EpisodeComparison:
    """The window that holds row `place`; eight queries at most, whatever the number of steps."""
    rows = align(_traces(left), _traces(right))
    divergence = first_divergence(rows)
    place = min(max(0, place), max(0, len(rows) - 1))
    first = place - place % ROWS
    shown = rows[first : first + ROWS]
    lefts, rights = _cards(left, (row.left for row in shown), view), _cards(right, (row.right for row in shown), view)
    beside = [_beside(first + n, row, lefts, rights, divergence) for n, row in enumerate(shown)]
    counts = Counter[str](row.verdict for row in rows)
    return EpisodeComparison(
        beside, first, len(rows), divergence, counts, len(rows) < MAX_COMPARED or _is_all(left, right)
    )


def _beside(
    place: int, row: ComparisonRow, lefts: dict[int, Card], rights: dict[int, Card], divergence: int | None
) -> Beside:
    left = None if row.left is None else lefts.get(row.left)
    right = None if row.right is None else rights.get(row.right)
    return Beside(place, left, right, row.verdict, place == divergence)


def _is_all(*episodes: Episode) -> bool:
    return not any(episode.steps.filter(index__gte=MAX_COMPARED).exists() for episode in episodes)


def _traces(episode: Episode) -> list[Trace]:
    """One query."""
    columns = ("tool", "input", "input_blob", "output", "output_blob", "status", "error")
    rows = episode.steps.filter(index__lt=MAX_COMPARED).order_by("index").values_list(*columns)
    return [
        Trace(call=(tool, given or _canonical(text)), answer=(status, error, answer or output))
        for tool, text, given, output, answer, status, error in rows
    ]


def _canonical(text: str) -> str:
    """JSON text, whatever the order of keys and the blanks between them."""
    value: Any = read_json(text)
    try:
        return json.dumps(value, sort_keys=True)
    except RecursionError:
        return text


def _cards(episode: Episode, indexes: Iterable[int | None], view: TranscriptView) -> dict[int, Card]:
    """Index -> card."""
    wanted = [index for index in indexes if index is not None]
    if not wanted:
        return {}
    return {line.step.index: card_of(line) for line in lines_at(episode, min(wanted), max(wanted) + 1, view)}
