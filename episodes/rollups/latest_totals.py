"""Makes LatestTotal rows, by which lists of runs are sorted, of the spans of the latest tenth of a
run's training steps.

`step_spans.py` drives it, in the transactions in which it writes spans. New endings are merged into
the rows; a tenth that begins at another span than before is made of its spans again, which happens
about once in a training step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from django.db import connection

from environments.database.bulk_writer import BulkWriter, Values
from environments.database.json_rows import among
from episodes.attempts.endings import rows_of
from episodes.models import LatestTotal
from episodes.rollups.scopes import Edges, Place
from episodes.rollups.span_content import SCOPE_CONDITION, Span, SpanContent, merged, span_queries
from episodes.rollups.summaries import COLUMNS, columns_read, read_summary, values_of

LATEST_SHARE = 10
"""One part of so many of a run's training steps are its latest ones."""
ALL_SPLITS = LatestTotal.ALL_SPLITS
_KEY = ("scope", "scope_id", "environment_id", "split_id", "width", "number")
_RANGE = ("step_low", "step_high")
_COLUMNS = (*_KEY, *_RANGE, *COLUMNS)


@dataclass(frozen=True, slots=True)
class RunSpans:
    """The spans of a run, and what changes in them."""

    width: int
    rows: Collection[Span]
    additions: Mapping[Span, SpanContent] = field(default_factory=dict)
    """What new endings add."""
    fresh: dict[Span, SpanContent] = field(default_factory=dict)
    """The spans that are written again, as they are then."""


class _StoredTotal(NamedTuple):
    """A stored row."""

    pk: int
    environment: int
    start: tuple[int, int]
    """Width of the spans, and number of the first."""
    row: list[Any]
    """Lowest and highest training step, and the columns of the summary."""


@dataclass(frozen=True, slots=True)
class LatestChange:
    stale: list[int] = field(default_factory=list)
    """Ids of rows that `fresh` replaces."""
    fresh: list[Values] = field(default_factory=list)
    """Rows in the order of _COLUMNS."""

    def write(self) -> None:
        LatestTotal.objects.filter(pk__in=self.stale).delete()
        BulkWriter(connection).insert(LatestTotal, _COLUMNS, self.fresh)


def latest_change(
    runs: Mapping[int, RunSpans], stale: Collection[int], edges: Mapping[int, Edges]
) -> LatestChange:
    """Return what changes in the rows of these runs. One query, and one for each hundred runs whose
    latest tenth begins elsewhere.

    `stale`: ids of the spans that are written again.
    """
    change, contents = LatestChange(), defaultdict[tuple[int, int, int], list[SpanContent]](list)
    totals_by_place, firsts = _stored_totals(runs), dict[tuple[int, int], int]()
    new_firsts = defaultdict[int, dict[int, int]](dict)
    for run, spans in runs.items():
        for split, first in _first_numbers(spans.rows).items():
            firsts[run, split], totals = first, totals_by_place[run, split]
            if not totals or any(total.start != (spans.width, first) for total in totals):
                new_firsts[run][split] = first
                change.stale.extend(total.pk for total in totals)
                continue
            for (number, place), content in spans.additions.items():
                if number >= first and split in (place.split, ALL_SPLITS):
                    contents[run, split, place.environment].append(content)
            for total in totals:
                if parts := contents.get((run, split, total.environment)):
                    parts.append(_read(total.row))
                    change.stale.append(total.pk)
    lowest = {run: min(firsts_of.values()) for run, firsts_of in new_firsts.items()}
    for run, (number, place), content in _spans_from(lowest, runs, frozenset(stale)):
        for split in (place.split, ALL_SPLITS):
            if split in new_firsts[run] and number >= new_firsts[run][split]:
                contents[run, split, place.environment].append(content)
    writer = BulkWriter(connection)
    for (run, split, environment), parts in contents.items():
        content = merged(parts, edges.get(environment, ()))
        key = ("run", run, environment, split, runs[run].width, firsts[run, split])
        values = values_of(content.summary, writer)
        change.fresh.append((*key, content.low, content.high, *values))
    return change


def _stored_totals(runs: Collection[int]) -> Mapping[tuple[int, int], list[_StoredTotal]]:
    """Return the stored rows by run and split."""
    totals_by_place = defaultdict[tuple[int, int], list[_StoredTotal]](list)
    totals = LatestTotal.objects.filter(among("scope_id", runs))
    columns = ("pk", *_KEY[1:], *_RANGE, *columns_read())
    for pk, run, environment, split, width, number, *row in rows_of(totals.values_list(*columns)):
        totals_by_place[run, split].append(_StoredTotal(pk, environment, (width, number), row))
    return totals_by_place


def _spans_from(
    numbers: Mapping[int, int], runs: Mapping[int, RunSpans], stale: Collection[int]
) -> Iterator[tuple[int, Span, SpanContent]]:
    """Yield the spans of runs from these numbers on, as they are after the change."""
    condition = f"{SCOPE_CONDITION} AND width = %s AND number >= %s"
    conditions = [
        (condition, ("run", run, runs[run].width, first)) for run, first in numbers.items()
    ]
    columns = ("pk", "scope_id", "environment_id", "split_id", "number", *_RANGE, *columns_read())
    for spans in span_queries(conditions):
        for pk, run, environment, split, number, *row in rows_of(spans.values_list(*columns)):
            if pk not in stale:
                yield run, (number, Place(environment, split)), _read(row)
    for run, first in numbers.items():
        for span, content in runs[run].fresh.items():
            if span[0] >= first:
                yield run, span, content


def _read(row: Sequence[Any]) -> SpanContent:
    """Return the content in a row of _RANGE and `columns_read`."""
    low, high, *columns = row
    return SpanContent(low, high, read_summary(columns))


def _first_numbers(rows: Iterable[Span]) -> dict[int, int]:
    """Return the number of the first of the latest spans of each split, and of ALL_SPLITS if there
    are several: one of up to ten, two of up to twenty."""
    numbers = defaultdict[int, list[int]](list)
    for number, place in rows:
        numbers[place.split].append(number)
    if len(numbers) > 1:
        numbers[ALL_SPLITS] = [number for some in numbers.values() for number in some]
    return {
        split: max(some) - (max(some) - min(some)) // LATEST_SHARE
        for split, some in numbers.items()
    }
