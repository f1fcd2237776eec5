"""Two episodes side by side: their steps aligned by tool and input, and a window of the rows as
cards.

Used by the dashboard's page that compares two episodes. Steps that call the same tool with the same
input (the order of keys does not matter) are matched like lines in `diff`; the steps between two
matches are paired in order.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal

from environments.database.json_rows import among
from environments.database.storable import digest_of
from environments.display.parts import read_json
from episodes.models import Blob, Episode
from episodes.models.blobs import MAX_DIGESTED_BYTES, texts_of_blobs
from episodes.transcript.cards import Card, card_of
from episodes.transcript.steps import TranscriptView, lines_at

MAX_COMPARED = 1_000
"""Steps of each episode, from the first: matching takes time in the square of their number."""
MAX_READ_BYTES, MAX_READ = 32 * 1024 * 1024, 100
"""Size and number of large inputs and outputs that are read to learn whether they are the same
under different keys."""
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
    of steps.

    Large inputs and outputs may take some more.
    """
    rows = align(*_traces(left, right))
    divergence = first_divergence(rows)
    place = min(max(0, place), max(0, len(rows) - 1))
    first = place - place % ROWS
    shown = rows[first : first + ROWS]
    lefts, rights = (
        _cards(left, (row.left for row in shown), view),
        _cards(right, (row.right for row in shown), view),
    )
    compared = [_compared(first + n, row, lefts, rights, divergence) for n, row in enumerate(shown)]
    counts = Counter[str](row.verdict for row in rows)
    return EpisodeComparison(
        compared,
        first,
        len(rows),
        divergence,
        counts,
        len(rows) < MAX_COMPARED or _is_all(left, right),
    )


def _compared(
    place: int,
    row: ComparisonRow,
    lefts: dict[int, Card],
    rights: dict[int, Card],
    divergence: int | None,
) -> ComparedSteps:
    left = None if row.left is None else lefts.get(row.left)
    right = None if row.right is None else rights.get(row.right)
    return ComparedSteps(place, left, right, row.verdict, place == divergence)


def _is_all(*episodes: Episode) -> bool:
    return not any(episode.steps.filter(index__gte=MAX_COMPARED).exists() for episode in episodes)


def _traces(*episodes: Episode) -> list[list[Trace]]:
    """Return the traces of the first MAX_COMPARED steps of each of two episodes."""
    columns = ("input_blob", "output_blob", "tool", "input", "output", "status", "error")
    left, right = (
        list(episode.steps.filter(index__lt=MAX_COMPARED).order_by("index").values_list(*columns))
        for episode in episodes
    )
    names = _names_of_contents(_keys(left) ^ _keys(right))
    return [[_trace(names, *row) for row in rows] for rows in (left, right)]


def _keys(rows: Iterable[Sequence[Any]]) -> set[str]:
    return {key for row in rows for key in row[:2] if key}


def _names_of_contents(keys: Collection[str]) -> dict[str, str]:
    """Return the digest of the content of each large blob that has the size of another one.

    Different versions of zstandard may have stored the same content under different keys.
    """
    if not keys:
        return {}
    sizes = dict(
        Blob.objects.filter(among("pk", keys), size_bytes__gt=MAX_DIGESTED_BYTES).values_list(
            "pk", "size_bytes"
        )
    )
    counts = Counter(sizes.values())
    same = [key for key, size in sizes.items() if counts[size] > 1][:MAX_READ]
    return {key: digest_of(text.encode()) for key, text in texts_of_blobs(same, MAX_READ_BYTES)}


def _trace(
    names: Mapping[str, str],
    given_key: str | None,
    answer_key: str | None,
    tool: str,
    given: str,
    answer: str,
    status: str,
    error: str,
) -> Trace:
    """Return the trace of a step. `names`: what stands for a key."""
    call = names.get(given_key, given_key) if given_key else _canonical(given)
    return Trace(
        (tool, call), (status, error, names.get(answer_key, answer_key) if answer_key else answer)
    )


def _canonical(text: str) -> str:
    """Return the JSON text with sorted keys and uniform spaces."""
    value: Any = read_json(text)
    try:
        return json.dumps(value, sort_keys=True)
    except RecursionError:
        return text


def _cards(
    episode: Episode, indexes: Iterable[int | None], view: TranscriptView
) -> dict[int, Card]:
    """Return the card of each of `indexes`."""
    wanted = [index for index in indexes if index is not None]
    if not wanted:
        return {}
    return {
        line.step.index: card_of(line)
        for line in lines_at(episode, min(wanted), max(wanted) + 1, view)
    }


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
    start = _common(left, right)
    matcher = SequenceMatcher(
        None,
        [one.call for one in left[start:]],
        [one.call for one in right[start:]],
        autojunk=False,
    )
    rows = [_row(left, right, n, n) for n in range(start)]
    for _, left_from, left_to, right_from, right_to in matcher.get_opcodes():
        for n, m in _side_by_side(range(left_from, left_to), range(right_from, right_to)):
            rows.append(
                _row(
                    left, right, None if n is None else start + n, None if m is None else start + m
                )
            )
    return rows


def first_divergence(rows: Sequence[ComparisonRow]) -> int | None:
    """Return the place of the first row with different calls; None if there is none."""
    return next(
        (place for place, row in enumerate(rows) if row.verdict in ("call", "left", "right")), None
    )


def _common(left: Sequence[Trace], right: Sequence[Trace]) -> int:
    """Return the length of the common beginning.

    It is skipped because the matcher's time grows with the square of the rest.
    """
    pairs = enumerate(zip(left, right, strict=False))
    return next((n for n, (a, b) in pairs if a.call != b.call), min(len(left), len(right)))


def _side_by_side(left: range, right: range) -> Iterator[tuple[int | None, int | None]]:
    for n in range(max(len(left), len(right))):
        yield left[n] if n < len(left) else None, right[n] if n < len(right) else None


def _row(
    left: Sequence[Trace], right: Sequence[Trace], n: int | None, m: int | None
) -> ComparisonRow:
    if n is None or m is None:
        return ComparisonRow(n, m, "left" if m is None else "right")
    if left[n].call != right[m].call:
        return ComparisonRow(n, m, "call")
    return ComparisonRow(n, m, "same" if left[n].answer == right[m].answer else "answer")
