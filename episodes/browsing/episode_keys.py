"""Orders of episodes, and the keys of one page: places in an order, from a start on. Used by
`episode_list.py`.

A page is one plain query: the filter's conditions, the order, as many rows as the page has. That
takes long where no index gives both the matches and their order: for ranges in the order of time,
and for other filters in the order of a figure. Cheaper queries come first there, and the page is as
exact as without them: up to MAX_SORTED matches are read and sorted here; if there are more, the
first episodes of the order nearly always hold enough for a page.
docs/decisions/0017-plain-filters.md has the numbers.
"""

from __future__ import annotations

import base64
import heapq
import json
import math
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple, Self

from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, F, FloatField, Func, QuerySet, Value
from django.db.models.sql.compiler import SQLCompiler

from environments.database.storable import MAX_BIGINT
from environments.filtering.parameters import BadFilter
from episodes.attempts.rule import ENDED
from episodes.filtering.conditions import NamedRows
from episodes.filtering.filters import EpisodeFilter
from episodes.models import Episode

SORTS = ("time", "return", "steps", "duration")
Segment = Literal["known", "null", "running"]
"""Episodes with a figure come first, then those that ended without one, then those that run, each
by their ids."""

MAX_SCANNED = 25_000
"""Number of newest episodes in which a range is searched first; takes up to 5 ms."""
MAX_SCANNED_BY_FIGURE = {"sqlite": 5_000, "postgresql": 100_000}
"""Number of episodes at the start of a figure's order that are searched first; takes 10 to 20
ms."""
MAX_SORTED = 25_000
"""Number of matches that are read and sorted here; takes up to 30 ms."""
MAX_SORTED_BY_DATABASE = 50_000
"""Number of matches that the database sorts; for more it reads along the index of the figure, as
for common filters."""
MAX_SORTED_BY_COUNT = 50_000
"""Number of newest episodes that are sorted by a return that no index has, because a convention
counts some as 0."""
MAX_LOOKED_AT = 1_000_000
"""Number of episodes that are searched if no index answers alone, which takes 150 ms of CPU time.
With more episodes
a page says that it is bounded."""

COUNTED = "counted_"
"""Start of the names of annotations by which lists are sorted."""
_RANGES = frozenset(("return", "steps", "ends", "time"))
"""Subjects of filters by ranges."""
_FIGURES = {"steps": "steps_count", "duration": "duration_seconds"}
_RISING = {"time": "created", "ends": "end_number"}
"""Columns that rise with time, by the subject of a filter. A filter by one such range alone is read
along its index, wherever the range starts."""


@dataclass(frozen=True, slots=True)
class EpisodeOrder:
    column: str
    """`id`, another column that rises with time, or a figure. Equal values are ordered by id. An
    annotation such as `counted_return_sum` is the return that a convention counts."""
    is_descending: bool = True

    @classmethod
    def of(cls, sort: str, names: NamedRows) -> EpisodeOrder:
        """Return the order of a filter's episodes by the parameter `sort`; empty: the newest
        first."""
        name, is_descending = sort.removeprefix("-"), not sort or sort.startswith("-")
        if name == "return":
            start = "" if names.conventions.zeros is None else COUNTED
            return cls(f"{start}return_{names.definition}", is_descending)
        if name in _FIGURES:
            return cls(_FIGURES[name], is_descending)
        first, *others = subjects_of(names.filter) or [""]
        return cls("id" if others else _RISING.get(first, "id"), is_descending)

    def __str__(self) -> str:
        return f"{'-' if self.is_descending else ''}{self.column}"

    @property
    def is_return(self) -> bool:
        return self.column.startswith("return_")

    @property
    def is_counted(self) -> bool:
        """Return whether the order's figure is an annotation, which no index has."""
        return self.column.startswith(COUNTED)

    @property
    def is_figure(self) -> bool:
        return self.is_return or self.is_counted or self.column in _FIGURES.values()

    @property
    def subject(self) -> str:
        """Subject of a filter (`subjects_of`) whose index has this order, so that the two are read
        together."""
        if not self.is_figure:
            return {"created": "time", "end_number": "ends"}.get(self.column, "")
        return "return" if self.is_return else self.column.removesuffix("_count")

    @property
    def segments(self) -> list[Segment]:
        if not self.is_figure:
            return ["known"]
        can_lack = self.column not in ("return_sum", "steps_count")
        return ["known", "null", "running"] if can_lack else ["known", "running"]


class EpisodeKey(NamedTuple):
    """An episode's place in an order."""

    segment: Segment
    value: Any
    """Value of the order's column, a time as datetime; None outside the segment `known`."""
    pk: int


class Direction(NamedTuple):
    """An order, and the key beyond which it is read, forwards or backwards; without a key, from the
    start."""

    order: EpisodeOrder
    start: EpisodeKey | None = None
    is_backward: bool = False

    @property
    def is_down(self) -> bool:
        """Return whether values and ids decrease in the direction of reading."""
        return self.order.is_descending != self.is_backward

    @property
    def segments(self) -> list[Segment]:
        """Segments that remain to be read, in the order of reading."""
        segments = self.order.segments[::-1] if self.is_backward else self.order.segments
        return segments[segments.index(self.start.segment) :] if self.start else segments

    @property
    def cursor(self) -> str:
        """The direction as text for an address, opaque to clients; empty if it has no start."""
        if self.start is None:
            return ""
        segment, value, pk = self.start
        value = value.isoformat() if isinstance(value, datetime) else value
        text = json.dumps(
            [str(self.order), segment, value, pk, self.is_backward], separators=(",", ":")
        )
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    @classmethod
    def parse(cls, cursor: str, order: EpisodeOrder) -> Self:
        """Return the direction of a cursor. Raises: BadFilter if it was not written for this
        order."""
        try:
            raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
            sign, segment, value, pk, is_backward = json.loads(raw)
            if sign != str(order):
                raise BadFilter(
                    "after",
                    cursor,
                    "it belongs to another order or filter; leave it out for the first page",
                )
            if (
                segment not in order.segments
                or not _is_whole(pk)
                or not isinstance(is_backward, bool)
            ):
                raise TypeError
            return cls(order, EpisodeKey(segment, _value(value, order, segment), pk), is_backward)
        except (ValueError, TypeError, RecursionError):
            reason = "it is not a cursor from a page of episodes; leave it out for the first page"
            raise BadFilter("after", cursor, reason) from None


def _value(value: Any, order: EpisodeOrder, segment: str) -> Any:
    """Return the value of a key as it was before `Direction.cursor`. Raises: TypeError, ValueError if the
    order has no such."""
    if segment != "known":
        is_allowed = value is None
    elif order.column == "created":
        value = datetime.fromisoformat(value)
        is_allowed = value.tzinfo is not None
    else:
        is_allowed = _is_whole(value) or (
            order.is_figure and isinstance(value, float) and math.isfinite(value)
        )
    if not is_allowed:
        raise TypeError
    return value


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_BIGINT


@dataclass(frozen=True, slots=True)
class KeySearch:
    keys: list[EpisodeKey]
    """Keys in the order in which they were read, which is reversed for a page that is read
    backwards."""
    edge: EpisodeKey | None = None
    """Key at which the search stopped although more episodes follow; None if it reached the last
    one."""
    count: int | None = None
    """Number of episodes that match the filter; None if it did not become known."""


class _Beyond(Func):
    """Whether (column, id) lies on one side of (value, number): a row value, which an index answers
    even among ties."""

    output_field = BooleanField()

    def __init__(self, column: str, sign: str, value: Any, pk: int) -> None:
        super().__init__(F(column), F("id"), Value(value), Value(pk))
        self.sign = sign

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **_: Any) -> Any:  # type: ignore[override]
        parts = [compiler.compile(part) for part in self.get_source_expressions()]
        column, pk, value, number = [sql for sql, _ in parts]
        values = [parameter for _, parameters in parts for parameter in parameters]
        return f"({column}, {pk}) {self.sign} ({value}, {number})", values


def subjects_of(filters: EpisodeFilter) -> frozenset[str]:
    """Return what the filter sets conditions for, by name.

    These are parameters, without `_from` and `_to` for a range, and `time` for since and until.
    What one index holds together counts once: a split and its environment, a run and one of its
    training steps.
    """
    names = {
        "time" if name in ("since", "until") else name.partition("_")[0]
        for name in filters.names_of_conditions
    }
    if "split" in names:
        names.discard("environment")
    if filters.run is not None and filters.step and filters.step.low == filters.step.high:
        names.discard("step")
    return frozenset(names)


def has_index(filters: EpisodeFilter) -> bool:
    """Return whether an index alone gives what the filter finds, and no other episode has to be
    read."""
    subjects, parameters = subjects_of(filters), filters.parameters()
    return len(subjects) <= 1 and all(
        parameters[name].is_indexed for name in subjects if name in parameters
    )


def read(names: NamedRows, direction: Direction, size: int) -> KeySearch:
    """Return up to `size` keys of a filter's episodes in the direction.

    One index gives those of a filter by one thing, such as an environment, by their ids (`_plain`).
    """
    rows: QuerySet[Episode] = names.episodes()
    order, subjects = direction.order, subjects_of(names.filter)
    if order.is_counted:
        value = names.conventions.return_of(names.definition)
        rows = rows.annotate(**{order.column: value})
    if subjects <= {order.subject}:
        return KeySearch(_plain(rows, direction, size))
    if order.is_figure:
        return _by_figure(rows, direction, size)
    edge = None if has_index(names.filter) else _edge(direction, MAX_LOOKED_AT)
    rows = _within(rows, edge, direction)
    if subjects.isdisjoint(_RANGES):
        keys, count = _plain(rows, direction, size), None
    else:
        keys, count = _by_time(rows, direction, size)
    return KeySearch(keys, edge if len(keys) < size else None, None if edge else count)


def _by_time(
    rows: QuerySet[Episode], direction: Direction, size: int
) -> tuple[list[EpisodeKey], int | None]:
    """Return keys for a filter by ranges, whose indexes have other orders, and the number of
    matches if it is known."""
    keys = _plain(_within(rows, _edge(direction, MAX_SCANNED), direction), direction, size)
    if len(keys) == size:
        return keys, None
    if (few := _few(rows, direction.order)) is not None:
        return _sorted(few, direction, size), len(few)
    return _plain(rows, direction, size), None


def _by_figure(rows: QuerySet[Episode], direction: Direction, size: int) -> KeySearch:
    newest = Direction(EpisodeOrder("id"))
    edge = _edge(newest, MAX_SORTED_BY_COUNT if direction.order.is_counted else MAX_LOOKED_AT)
    rows = _within(rows, edge, newest)
    if direction.order.is_counted:
        return KeySearch(_plain(rows, direction, size), edge)
    if len(keys := _among_first(rows, direction, size)) == size:
        return KeySearch(keys, edge)
    if (few := _few(rows, direction.order)) is not None:
        return KeySearch(_sorted(few, direction, size), edge, None if edge else len(few))
    is_rare = rows[: MAX_SORTED_BY_DATABASE + 1].count() <= MAX_SORTED_BY_DATABASE
    return KeySearch(_plain(rows, direction, size, is_sorted=is_rare), edge)


def _among_first(rows: QuerySet[Episode], direction: Direction, size: int) -> list[EpisodeKey]:
    """Return up to `size` keys of the matches among the first episodes of a figure's order."""
    if direction.segments[0] != "known":
        return []
    column, most = direction.order.column, MAX_SCANNED_BY_FIGURE[connection.vendor]
    first = _beyond(_of_segment(Episode.objects.all(), direction.order, "known"), direction)
    first = _ordered(first, direction, column)
    if connection.vendor == "sqlite":  # otherwise it would use the index of an equality
        return _plain(rows.filter(pk__in=first.values("pk")[:most]), direction, size)
    last = first.values_list(column, "pk")[most : most + 1].first()
    if last is None:
        return []
    return _plain(
        rows.filter(_Beyond(column, ">" if direction.is_down else "<", *last)), direction, size
    )


def _few(rows: QuerySet[Episode], order: EpisodeOrder) -> list[EpisodeKey] | None:
    """Return the keys of all `rows`, in no order; None if there are more than MAX_SORTED."""
    values = list(rows.values_list(order.column, "status", "pk")[: MAX_SORTED + 1])
    if len(values) > MAX_SORTED:
        return None
    keys = []
    for value, status, pk in values:
        if order.is_figure and status == "running":
            keys.append(EpisodeKey("running", None, pk))
        else:
            keys.append(EpisodeKey("null" if value is None else "known", value, pk))
    return keys


def _sorted(keys: list[EpisodeKey], direction: Direction, size: int) -> list[EpisodeKey]:
    page = list[EpisodeKey]()
    for segment in direction.segments:
        part = [key for key in keys if key.segment == segment]
        if direction.start and direction.start.segment == segment:
            start = direction.start[1:]
            part = [
                key for key in part if (key[1:] < start if direction.is_down else key[1:] > start)
            ]
        page += (heapq.nlargest if direction.is_down else heapq.nsmallest)(size - len(page), part)
    return page


# --- queries --------------------------------------------------------------------------------------


def _plain(
    rows: QuerySet[Episode], direction: Direction, size: int, *, is_sorted: bool = False
) -> list[EpisodeKey]:
    """Return up to `size` keys, segment after segment.

    `is_sorted`: all rows are sorted, without the index of the figure, along which rare matches may
    come last.
    """
    keys, column = list[EpisodeKey](), direction.order.column
    for segment in direction.segments:
        part = _of_segment(rows, direction.order, segment)
        if direction.start and direction.start.segment == segment:
            part = _beyond(part, direction)
        if segment == "known":
            if is_sorted:
                part = part.alias(figure=F(column) + Value(0.0, output_field=FloatField()))
            part = _ordered(part, direction, "figure" if is_sorted else column)
            values = part.values_list(column, "pk")[: size - len(keys)]
            keys += [EpisodeKey(segment, *row) for row in values]
        else:
            ids = part.order_by("-pk" if direction.is_down else "pk").values_list("pk", flat=True)
            keys += [EpisodeKey(segment, None, pk) for pk in ids[: size - len(keys)]]
        if len(keys) >= size:
            break
    return keys


def _of_segment(
    rows: QuerySet[Episode], order: EpisodeOrder, segment: Segment
) -> QuerySet[Episode]:
    if not order.is_figure:
        return rows
    if segment == "running":
        return rows.filter(status="running")
    return rows.filter(ENDED, **{f"{order.column}__isnull": segment == "null"})


def _beyond(rows: QuerySet[Episode], direction: Direction) -> QuerySet[Episode]:
    start, column = direction.start, direction.order.column
    if start is None:
        return rows
    if start.segment != "known" or column == "id":
        return rows.filter(**{f"pk__{'lt' if direction.is_down else 'gt'}": start.pk})
    return rows.filter(_Beyond(column, "<" if direction.is_down else ">", start.value, start.pk))


def _ordered(rows: QuerySet[Episode], direction: Direction, column: str) -> QuerySet[Episode]:
    sign = "-" if direction.is_down else ""
    return (
        rows.order_by(f"{sign}pk")
        if column == "id"
        else rows.order_by(f"{sign}{column}", f"{sign}pk")
    )


def _edge(direction: Direction, looked_at: int) -> EpisodeKey | None:
    """Return the last of `looked_at` episodes from the start on, by their ids; None if there are
    not so many."""
    down = direction.is_down
    ends = Episode.objects.order_by("-pk" if down else "pk").values_list("pk", flat=True)
    start = direction.start.pk if direction.start else ends.first()
    if start is None or (down and start <= looked_at):
        return None
    last = ends.reverse().first() or 0
    edge = start - looked_at if down else start + looked_at
    return EpisodeKey("known", edge, edge) if (edge > last if down else edge < last) else None


def _within(
    rows: QuerySet[Episode], edge: EpisodeKey | None, direction: Direction
) -> QuerySet[Episode]:
    """Return the rows that are not behind `edge`."""
    if edge is None:
        return rows
    # the bound at the other end makes SQLite prefer the ids to the index of a range
    bounds = (
        {"pk__gte": edge.pk, "pk__lt": MAX_BIGINT}
        if direction.is_down
        else {"pk__lte": edge.pk, "pk__gt": -1}
    )
    return rows.filter(**bounds)
