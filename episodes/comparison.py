"""Comparison: two episodes, aligned, and a window of the rows with everything that was said. No request, no HTML."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from environments.parts import read_json
from episodes.alignment import Row, Trace, align, first_divergence
from episodes.cards import Card, card_of
from episodes.models import Episode
from episodes.transcript import View, lines_at

MOST_COMPARED = 1_000
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
class Comparison:
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


def comparison_of(left: Episode, right: Episode, view: View, place: int = 0) -> Comparison:
    """The window that holds row `place`; eight queries at most, whatever the number of steps."""
    rows = align(_traces(left), _traces(right))
    divergence = first_divergence(rows)
    place = min(max(0, place), max(0, len(rows) - 1))
    first = place - place % ROWS
    shown = rows[first : first + ROWS]
    lefts, rights = _cards(left, (row.left for row in shown), view), _cards(right, (row.right for row in shown), view)
    beside = [_beside(first + n, row, lefts, rights, divergence) for n, row in enumerate(shown)]
    counts = Counter[str](row.verdict for row in rows)
    return Comparison(beside, first, len(rows), divergence, counts, len(rows) < MOST_COMPARED or _is_all(left, right))


def _beside(place: int, row: Row, lefts: dict[int, Card], rights: dict[int, Card], divergence: int | None) -> Beside:
    left = None if row.left is None else lefts.get(row.left)
    right = None if row.right is None else rights.get(row.right)
    return Beside(place, left, right, row.verdict, place == divergence)


def _is_all(*episodes: Episode) -> bool:
    return not any(episode.steps.filter(index__gte=MOST_COMPARED).exists() for episode in episodes)


def _traces(episode: Episode) -> list[Trace]:
    """One query."""
    columns = ("tool", "input", "input_blob", "output", "output_blob", "status", "error")
    rows = episode.steps.filter(index__lt=MOST_COMPARED).order_by("index").values_list(*columns)
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


def _cards(episode: Episode, indexes: Iterable[int | None], view: View) -> dict[int, Card]:
    """Index -> card."""
    wanted = [index for index in indexes if index is not None]
    if not wanted:
        return {}
    return {line.step.index: card_of(line) for line in lines_at(episode, min(wanted), max(wanted) + 1, view)}
