"""Two episodes side by side: their steps aligned by tool and input, and a window of the rows as
cards.

Used by the dashboard's page that compares two episodes. Steps that call the same tool with the same
input (the order of keys does not matter) are matched like lines in `diff`; the steps between two
matches are paired in order.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, Literal

from environments.display.parts import read_json
from episodes.models import Episode
from episodes.transcript.cards import Card, card_of
from episodes.transcript.steps import TranscriptView, lines_at

MAX_COMPARED = 1_000
"""Steps of each episode, from the first: matching takes time in the square of their number."""
ROWS = 40
"""Number of rows of a window."""

Verdict = Literal["same", "answer", "call", "left", "right"]
"""same call and answer; same call, different answer; different call; step only on the left; step
only on the right"""


@dataclass(frozen=True, slots=True)
class ComparedSteps:
    """A row of the comparison, with its place among all rows."""

    place: int
    left: Card | None
    right: Card | None
    verdict: str
    is_divergence: bool
    """Whether the row is the first with different calls."""


@dataclass(frozen=True, slots=True)
class EpisodeComparison:
    rows: list[ComparedSteps]
    first: int
    total: int
    """Rows of the whole comparison."""
    divergence: int | None
    """Place of the first row with different calls; None if there is none."""
    counts: Counter[str]
    """Number of rows by verdict."""
    is_all: bool
    """False when an episode has more steps than are compared."""

    @property
    def previous(self) -> int | None:
        return max(0, self.first - ROWS) if self.first else None

    @property
    def next(self) -> int | None:
        return self.first + ROWS if self.first + ROWS < self.total else None


def comparison_of(
    left: Episode, right: Episode, view: TranscriptView, place: int = 0
) -> EpisodeComparison:
    """Return the window that contains row `place`. At most eight queries, independent of the number
    of steps."""
    rows = align(_traces(left), _traces(right))
    divergence = first_divergence(rows)
    place = min(max(0, place), max(0, len(rows) - 1))
    first = place - place % ROWS
    window = rows[first : first + ROWS]
    lefts = _cards(left, [row.left for row in window], view)
    rights = _cards(right, [row.right for row in window], view)
    steps = [
        ComparedSteps(
            place, lefts.get(row.left), rights.get(row.right), row.verdict, place == divergence
        )
        for place, row in enumerate(window, first)
    ]
    is_all = len(rows) < MAX_COMPARED or not any(
        episode.steps.filter(index__gte=MAX_COMPARED).exists() for episode in (left, right)
    )
    counts = Counter[str](row.verdict for row in rows)
    return EpisodeComparison(steps, first, len(rows), divergence, counts, is_all)


def _traces(episode: Episode) -> list[Trace]:
    """Return the traces of the first MAX_COMPARED steps."""
    columns = ("tool", "input", "input_blob", "status", "error", "output", "output_blob")
    rows = episode.steps.filter(index__lt=MAX_COMPARED).order_by("index").values_list(*columns)
    return [
        Trace((tool, input_blob or _canonical(input_)), (status, error, output_blob or output))
        for tool, input_, input_blob, status, error, output, output_blob in rows
    ]


def _canonical(text: str) -> str:
    """Return the JSON text with sorted keys and uniform spaces."""
    value: Any = read_json(text)
    try:
        return json.dumps(value, sort_keys=True)
    except RecursionError:
        return text


def _cards(
    episode: Episode, window: Sequence[int | None], view: TranscriptView
) -> dict[int | None, Card]:
    """Return the cards of the steps by their indexes."""
    indexes = [index for index in window if index is not None]
    if not indexes:
        return {}
    lines = lines_at(episode, min(indexes), max(indexes) + 1, view)
    return {line.step.index: card_of(line) for line in lines}


# --- alignment ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Trace:
    """The compared values of one step. Equal values mean equal content."""

    call: Hashable
    answer: Hashable


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    left: int | None
    """Index in the left sequence; None if the step on the right has no counterpart."""
    right: int | None
    """Index in the right sequence; None if the step on the left has no counterpart."""
    verdict: Verdict


def align(left: Sequence[Trace], right: Sequence[Trace]) -> list[ComparisonRow]:
    """Return the rows that contain every step of both sequences once and in order."""
    # the matcher's time grows with the square of what follows the common beginning
    pairs = enumerate(zip(left, right, strict=False))
    shorter = min(len(left), len(right))
    start = next((n for n, (a, b) in pairs if a.call != b.call), shorter)
    matcher = SequenceMatcher(
        None,
        [trace.call for trace in left[start:]],
        [trace.call for trace in right[start:]],
        autojunk=False,
    )
    rows = [_row(left, right, n, n) for n in range(start)]
    for _, left_from, left_to, right_from, right_to in matcher.get_opcodes():
        lefts = range(start + left_from, start + left_to)
        rights = range(start + right_from, start + right_to)
        rows += [_row(left, right, n, m) for n, m in zip_longest(lefts, rights)]
    return rows


def first_divergence(rows: Sequence[ComparisonRow]) -> int | None:
    """Return the place of the first row with different calls; None if there is none."""
    return next(
        (place for place, row in enumerate(rows) if row.verdict in ("call", "left", "right")), None
    )


def _row(
    left: Sequence[Trace], right: Sequence[Trace], n: int | None, m: int | None
) -> ComparisonRow:
    if n is None or m is None:
        return ComparisonRow(n, m, "left" if m is None else "right")
    if left[n].call != right[m].call:
        return ComparisonRow(n, m, "call")
    return ComparisonRow(n, m, "same" if left[n].answer == right[m].answer else "answer")
