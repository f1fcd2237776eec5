"""Reading: the keys of one page of what a plan finds, in an order, from a cursor on. Used by `browse.py`.

A page is read along an index. Where conditions are checked beside it, only some episodes are looked at: for the order
of time LOOKED_AT_FOR_PAGE from the cursor on, so that reading can go on; for a figure's the newest SORTED, whatever the
page.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, F, FloatField, Func, Q, QuerySet, Value
from django.db.models.sql.compiler import SQLCompiler

from episodes.filtering.conditions import ENDED, Condition
from episodes.filtering.cursor import EpisodeCursor, EpisodeOrder, Segment
from episodes.filtering.plan import LOOKED_AT_FOR_PAGE, SORTED, QueryPlan, plan_of, without_heap
from episodes.models import Episode

FEW_HEAPED = 1_000
MAX_HEAPED = 12_000
"""Ids that are read to be sorted: few at once, more when the newest episodes hold too few of them."""


class EpisodeKey(NamedTuple):
    """An episode's place in an order."""

    segment: Segment
    value: Any
    """Of the order's column; a time as datetime."""
    pk: int


@dataclass(frozen=True, slots=True)
class EpisodesFound:
    keys: list[EpisodeKey]
    """In the order in which they were read, which is the reverse of the page's before a cursor."""
    edge: EpisodeKey | None = None
    """Where the looking ended, with more episodes behind it."""


class _Beyond(Func):
    """Whether (column, id) lies on one side of (value, number): a row value, which an index answers even among ties."""

    output_field = BooleanField()

    def __init__(self, column: Any, sign: str, value: Any, pk: int) -> None:
        super().__init__(column, F("id"), Value(value), Value(pk))
        self.sign = sign

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **_: Any) -> Any:  # type: ignore[override]
        parts = [compiler.compile(part) for part in self.get_source_expressions()]
        texts, values = [sql for sql, _ in parts], [value for _, given in parts for value in given]
        return f"({texts[0]}, {texts[1]}) {self.sign} ({texts[2]}, {texts[3]})", values


def read(
    conditions: Mapping[str, Condition], order: EpisodeOrder, cursor: EpisodeCursor | None, size: int
) -> EpisodesFound:
    """Up to `size` keys beyond the cursor."""
    plan = plan_of(conditions, order)
    if order.is_figure:
        return _by_figure(plan, order, cursor, size)
    if plan.is_heap and not plan.beside:
        return _from_heap(plan, conditions, order, cursor, size)
    return _by_time(plan, order, cursor, size)


def within(plan: QueryPlan, looked_at: int) -> Iterator[tuple[QuerySet[Episode], bool]]:
    """What the plan finds, in parts without order, and whether it is all: else among the newest `looked_at`."""
    edge = _edge(plan, EpisodeOrder(plan.axis), None, looked_at) if plan.is_bounded else None
    for walk in plan.walks:
        rows = Episode.objects.filter(walk, *plan.beside).order_by()
        yield (rows if edge is None else rows.filter(**{f"{plan.axis}__gte": edge.value})), edge is None


def axis_of(conditions: Mapping[str, Condition], order: EpisodeOrder) -> EpisodeOrder:
    """The order with the column by which its plan is read."""
    return order if order.is_figure else replace(order, column=plan_of(conditions, order).axis)


def _from_heap(
    plan: QueryPlan, conditions: Mapping[str, Condition], order: EpisodeOrder, cursor: EpisodeCursor | None, size: int
) -> EpisodesFound:
    """A small heap is sorted. What a large one holds is met soon among the newest episodes, unless all of it is old."""
    heap = Episode.objects.filter(plan.walks[0]).order_by().values_list("pk", flat=True)
    if len(ids := list(heap[: FEW_HEAPED + 1])) <= FEW_HEAPED:
        return EpisodesFound(list(_sorted(ids, order, cursor, size)))
    found = _by_time(without_heap(conditions), order, cursor, size)
    if found.edge is None or len(ids := list(heap[: MAX_HEAPED + 1])) > MAX_HEAPED:
        return found
    return EpisodesFound(list(_sorted(ids, order, cursor, size)))


def _sorted(ids: Iterable[int], order: EpisodeOrder, cursor: EpisodeCursor | None, size: int) -> Iterator[EpisodeKey]:
    down = _is_down(order, cursor)
    if cursor is not None:
        ids = [pk for pk in ids if (pk < cursor.pk if down else pk > cursor.pk)]
    for pk in (heapq.nlargest if down else heapq.nsmallest)(size, ids):
        yield EpisodeKey("known", pk, pk)


def _is_down(order: EpisodeOrder, cursor: EpisodeCursor | None) -> bool:
    return order.is_descending != (cursor is not None and cursor.is_backward)


# --- in the order of time --------------------------------------------------------------------------------------------


def _by_time(plan: QueryPlan, order: EpisodeOrder, cursor: EpisodeCursor | None, size: int) -> EpisodesFound:
    down = _is_down(order, cursor)
    edge = _edge(plan, order, cursor, LOOKED_AT_FOR_PAGE) if plan.is_bounded else None
    parts = []
    for walk in plan.walks:
        rows = _beyond(Episode.objects.filter(walk, *plan.beside), F(order.column), order, cursor)
        if edge is not None:
            rows = rows.filter(**{f"{order.column}__{'gte' if down else 'lte'}": edge.value})
        parts.append(list(_ordered(rows, order.column, down=down).values_list(order.column, "pk")[:size]))
    merged = heapq.merge(*parts, reverse=down)
    keys = [EpisodeKey("known", *row) for row, _ in zip(merged, range(size), strict=False)]
    return EpisodesFound(keys, edge if len(keys) < size else None)


def _edge(plan: QueryPlan, order: EpisodeOrder, cursor: EpisodeCursor | None, looked_at: int) -> EpisodeKey | None:
    """The last episode that is looked at; None: there are not so many."""
    down = _is_down(order, cursor)
    if plan.is_by_id:
        return _edge_by_id(cursor, looked_at, down=down)
    rows = _beyond(Episode.objects.filter(plan.walks[0]), F(order.column), order, cursor)
    if plan.is_heap:
        return None
    row = _ordered(rows, order.column, down=down).values_list(order.column, "pk")[looked_at - 1 : looked_at].first()
    return EpisodeKey("known", *row) if row else None


def _edge_by_id(cursor: EpisodeCursor | None, looked_at: int, *, down: bool) -> EpisodeKey | None:
    """Ids are given one after the other, so they tell how many there are."""
    ends = Episode.objects.order_by("-pk" if down else "pk").values_list("pk", flat=True)
    start = cursor.pk if cursor else ends.first()
    last = ends.reverse().first()
    if start is None or last is None:
        return None
    edge = start - looked_at if down else start + looked_at
    is_inside = edge > last if down else edge < last
    return EpisodeKey("known", edge, edge) if is_inside else None


def _beyond(
    rows: QuerySet[Episode], column: Any, order: EpisodeOrder, cursor: EpisodeCursor | None
) -> QuerySet[Episode]:
    if cursor is None:
        return rows
    sign = "<" if _is_down(order, cursor) else ">"
    if order.column == "id":
        return rows.filter(**{f"id__{'lt' if sign == '<' else 'gt'}": cursor.pk})
    value = datetime.fromisoformat(str(cursor.value)) if order.column == "created" else cursor.value
    return rows.filter(_Beyond(column, sign, value, cursor.pk))


def _ordered(rows: QuerySet[Episode], column: str, *, down: bool) -> QuerySet[Episode]:
    sign = "-" if down else ""
    return rows.order_by(f"{sign}pk") if column == "id" else rows.order_by(f"{sign}{column}", f"{sign}pk")


# --- in the order of a figure ----------------------------------------------------------------------------------------


def _by_figure(plan: QueryPlan, order: EpisodeOrder, cursor: EpisodeCursor | None, size: int) -> EpisodesFound:
    """Segment after segment until the page is full."""
    floor = _floor(plan) if plan.is_bounded else None
    keys, backward = list[EpisodeKey](), cursor is not None and cursor.is_backward
    segments = order.segments[::-1] if backward else order.segments
    for segment in segments[segments.index(cursor.segment) if cursor else 0 :]:
        rows = Episode.objects.filter(plan.walks[0], *plan.beside)
        if floor is not None:
            rows = rows.filter(**{f"{plan.axis}__gte": floor.value})
        start = cursor if cursor and cursor.segment == segment else None
        # a segment that is entered at its other end is read in the cursor's direction all the same
        keys += _segment(rows, segment, _Direction(order, start, backward, not plan.is_bounded), size - len(keys))
        if len(keys) >= size:
            break
    return EpisodesFound(keys, floor)


@dataclass(frozen=True, slots=True)
class _Direction:
    order: EpisodeOrder
    start: EpisodeCursor | None
    is_backward: bool
    is_direct: bool


def _segment(rows: QuerySet[Episode], segment: Segment, way: _Direction, room: int) -> list[EpisodeKey]:
    column, down = way.order.column, way.order.is_descending != way.is_backward
    if segment != "known":
        rows = rows.filter(Q(status="running") if segment == "running" else ENDED & Q(**{f"{column}__isnull": True}))
        if way.start:
            rows = rows.filter(**{f"pk__{'lt' if down else 'gt'}": way.start.pk})
        return [
            EpisodeKey(segment, None, pk) for pk in _ordered(rows, "id", down=down).values_list("pk", flat=True)[:room]
        ]
    rows = rows.filter(ENDED) if column == "steps_count" else rows.filter(ENDED, **{f"{column}__isnull": False})
    # found by other conditions they are sorted: the index of the figure would be read in vain, for they may be rare
    by = F(column) if way.is_direct else F(column) + Value(0.0, output_field=FloatField())
    if way.start:
        rows = rows.filter(_Beyond(by, "<" if down else ">", way.start.value, way.start.pk))
    sorting = (by.desc(), "-pk") if down else (by.asc(), "pk")
    return [EpisodeKey(segment, *row) for row in rows.order_by(*sorting).values_list(column, "pk")[:room]]


def _floor(plan: QueryPlan) -> EpisodeKey | None:
    """The oldest of the newest SORTED that the plan finds; None: there are not so many."""
    return _edge(plan, EpisodeOrder(plan.axis), None, SORTED)
