"""Selection: the tasks that satisfy some filters, in batches, as ids or as a count.

The task list, every bulk action, exports and saved searches use it, so a filter means the same
everywhere. A batch takes the route (an index that leads to the tasks of one filter, by their ids)
that leads to the fewest tasks. Why this is not one query for each page:
docs/decisions/0018-selections-walk-along-indexes.md.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import itemgetter
from typing import Any, Literal

from django.db.models import Exists, OuterRef, Q, QuerySet

from environments.curation.index_walk import Candidates, Order, Walk, WalkCursor, deadline
from environments.curation.task_filter import TaskFilter
from environments.database.storable import is_storable
from environments.models import (
    UNRESTRICTED,
    Environment,
    Split,
    SplitEntry,
    Task,
    TaskFlag,
    TaskStatistics,
    TaskTag,
)
from environments.tasks.task_places import listed, places_of

Filter = Literal["", "environment", "split", "tag", "state", "source", "bucket", "flags"]


@dataclass(frozen=True, slots=True)
class Route:
    filter: Filter
    """The filter whose tasks it leads to; empty: no filter, it leads to all tasks."""
    candidates: Candidates
    is_exact: bool = True
    """Whether every task that it leads to satisfies the filter."""
    known_size: int | None = None
    """Number of its tasks, where it need not be counted."""

    def size(self, most: int) -> int:
        """Return the number of tasks that the route leads to, counted up to `most`."""
        return self.candidates.size(most) if self.known_size is None else min(self.known_size, most)


def routes_of(filters: TaskFilter, split: Split | None) -> list[Route]:
    """Return a route for each filter that is given except the search; those that mostly lead to few
    tasks come first.

    `split`: the chosen one, if the environment has it.
    """
    routes = list[Route]()
    if filters.tag:
        tags = TaskTag.objects.filter(name=filters.tag)
        routes.append(Route("tag", _by_task(tags if is_storable(filters.tag) else tags.none())))
    if filters.flags:
        # distinct: a task may have several flags, and several places in a split
        routes.append(Route("flags", _by_task(TaskFlag.objects.filter(settled=None).distinct())))
    if filters.source == "dropped":
        routes.append(Route("source", _by_id(dropped__isnull=False)))
    elif filters.source:
        routes.append(Route("source", _by_id(source=filters.source)))
    if filters.bucket == "unseen":
        routes.append(Route("bucket", _by_id(is_unseen=True), is_exact=False))
    elif filters.bucket:
        rows = TaskStatistics.objects.filter(by="all", bucket=filters.bucket)
        routes.append(Route("bucket", _by_task(rows), is_exact=False))
    if filters.state in ("active", "quarantined"):
        is_exact = filters.state == "active"
        routes.append(Route("state", _by_id(state=filters.state), is_exact))
    elif filters.state == "superseded":
        routes.append(Route("state", _by_id(replaced_by__isnull=False), is_exact=False))
    elif filters.state == "pasted":
        routes.append(Route("state", _by_id(source="played"), is_exact=False))
    if filters.split is not None:  # a split belongs to one environment
        size = split.size if split else 0  # without the places that it hides
        places = _by_task(_places(filters, split).distinct())
        routes.append(Route("split", places, known_size=size))
    elif filters.environment is not None:
        routes.append(Route("environment", _by_id(environment=filters.environment)))
    if not routes:
        routes.append(Route("", _by_id(), known_size=MAX_COUNTED))
    # tasks of a procedural environment may be served without a place
    if (
        filters.state == "served"
        and not filters.is_served_by_split
        and not Environment.objects.filter(is_procedural=True).exists()
    ):
        # leads past stretches of tasks without a place, such as those that clients pasted
        visible = _by_task(SplitEntry.objects.filter(is_hidden=False).distinct())
        routes.append(Route("state", visible, is_exact=False, known_size=MAX_COUNTED))
    return routes


def _places(
    filters: TaskFilter, split: Split | None, tasks: Sequence[int] | None = None
) -> QuerySet[SplitEntry]:
    """Return the split's places that are asked for: all, or those that it serves."""
    places = places_of(split, tasks)
    return places.filter(is_hidden=False) if filters.is_served_by_split else places


def _without_split(selection: Selection) -> Selection:
    """Return what is asked of tasks at the split's places beyond being there; they are all of one
    environment."""
    state = "" if selection.is_served_by_split else selection.state
    return replace(selection, split=None, environment=None, state=state, sort="")


def _by_id(**columns: Any) -> Candidates:
    return Candidates(Task.objects.filter(**columns), "pk", "pk")


def _by_task(rows: QuerySet[Any]) -> Candidates:
    return Candidates(rows, "task_id", "task_id")


MAX_FEW = 1000
"""A filter that leaves at most this many tasks is applied first, whatever the order: they are all
tested together."""
MAX_COUNTED = 20_000
"""Tasks that a filter leaves are counted up to this; the route of the filter that leaves the fewest
is taken."""
MAX_WALKED_PLACES = 1000
"""Places of a split that are tested; a page that is not full by then is looked up by the tasks'
ids."""


@dataclass(frozen=True, slots=True)
class SelectionBatch:
    """Some tasks of a selection, in its order."""

    ids: tuple[int, ...]
    order: Order
    positions: tuple[int, ...]
    """Positions of the tasks in the split, where they are in its order, or ranks, where they are
    sorted; else empty."""
    first: str
    """Cursor at the first task: `batch(first, backward=True)` is what comes before it."""
    last: str
    """Cursor at the last task: `batch(last)` is what comes after it. When time ran out it is
    further on, where the walk ended (and so is `first` of a batch that was read backward)."""
    is_last: bool
    """Whether nothing comes after (of a batch that was read backward: before)."""
    seen: int
    """Number of tasks that were tested."""
    sorted_among: int | None = None
    """Number of tasks that were sorted, if more match than can be; else None."""


@dataclass(frozen=True, slots=True)
class Count:
    tasks: int
    is_exact: bool
    """Whether `tasks` is the exact number; otherwise there are at least that many."""
    is_over: bool = False
    """Whether there are more than `tasks`."""

    def __str__(self) -> str:
        words = "" if self.is_exact else "over " if self.is_over else "at least "
        return f"{words}{self.tasks:,}"


@dataclass(frozen=True)
class Selection(TaskFilter):
    """The tasks that satisfy the filters.

    Batches have the newest task first. With a split they are in its order, unless other filters
    leave so few of its tasks that a walk along its places would take long to find some, and yet too
    many to sort them all into that order.
    """

    def batch(
        self,
        after: str = "",
        limit: int = 50,
        *,
        backward: bool = False,
        seconds: float | None = None,
        max_tested: int | None = None,
    ) -> SelectionBatch:
        """Return the next `limit` tasks after the cursor, fewer when `seconds` have passed or
        `max_tested` tasks were tested.

        A cursor that cannot be read counts as none.
        """
        cursor, until = WalkCursor.parse(after), deadline(seconds)
        routes = _Routes(self)
        if self.split is not None and not self.ids and cursor.order != "newest":
            most = MAX_WALKED_PLACES if cursor.key is None and seconds is not None else None
            if most is None or not routes.is_sparse(limit / most):
                walk = routes.along_places()
                walk.find(limit, cursor.key, backward=backward, until=until, most=most)
                if most is None or walk.is_last or len(walk.found) == limit:
                    return _batch(walk, cursor.key, "split", backward=backward)
        start = cursor.key if cursor.order == "newest" else None
        walk = routes.along_ids()
        walk.find(limit, start, backward=backward, until=until, most=max_tested)
        return _batch(walk, start, "newest", backward=backward)

    def all_ids(self) -> array[int]:
        """Return every task once, 8 bytes each, in the order for a new split: the split's, else
        oldest first.

        Tasks of one import come in the order of its file; tasks that a class lists come in the
        order of their hashes, as they were inserted.
        """
        place = None if self.split is None else listed(self.split, self.environment)
        if self.split is None or self.ids:
            tasks = Task.objects.filter(self.condition()).order_by("pk")
            ids = array("q", tasks.values_list("pk", flat=True).iterator(2000))
            if self.split is None:
                return ids
            # the chosen ids: first those in the split, in its order, then the others
            rows = places_of(place, ids).order_by("position").values_list("task_id", flat=True)
            return array("q", dict.fromkeys(chain(rows, ids)))
        places = _places(self, place).order_by("position")
        rest = _without_split(self)
        if rest != _EVERYTHING:
            places = places.filter(task__in=Task.objects.filter(rest.condition()))
        rows = places.values_list("task_id", flat=True)
        return array("q", dict.fromkeys(rows.iterator(2000)))

    def count(
        self, limit: int, seconds: float | None = None, *, max_tested: int | None = None
    ) -> Count:
        """Return the number of tasks, or of places in a chosen split, counted up to `limit` for at
        most `seconds`.

        `max_tested`: without a split, how many tasks are looked at before the rest is left
        uncounted.
        """
        batch = self.batch(limit=limit + 1, seconds=seconds, max_tested=max_tested)
        is_over = len(batch.ids) > limit
        return Count(min(len(batch.ids), limit), batch.is_last and not is_over, is_over)


_EVERYTHING = Selection(viewer=UNRESTRICTED)


class _Routes:
    """The routes to the tasks of one selection, and which of them to take."""

    def __init__(self, selection: Selection) -> None:
        self._selection, self._split, every = selection, None, list[Route]()
        if not selection.ids:
            if selection.split is not None:
                self._split = listed(selection.split, selection.environment)
            every = routes_of(selection, self._split)
        self._sized = [
            (route.size(MAX_COUNTED) if len(every) > 1 else MAX_COUNTED, route) for route in every
        ]
        """Number of tasks that each leads to; not counted where there is no choice."""

    def is_sparse(self, share: float) -> bool:
        """Return whether another filter leaves many tasks, but at most this share of the split's
        places."""
        least, _ = self._narrowest()
        return MAX_FEW < least < min(MAX_COUNTED, share * (self._split.size if self._split else 0))

    def along_places(self) -> Walk:
        """Return a walk along the split's places in order; if another filter leaves few tasks, only
        along theirs."""
        least, route = self._narrowest()
        few = route.candidates.tasks(MAX_FEW) if route and least <= MAX_FEW else None
        along = Candidates(
            _places(self._selection, self._split, few), "position", "task_id", is_rising=True
        )
        rest = _without_split(self._selection).condition()
        return Walk(along, rest, is_few=few is not None)

    def along_ids(self) -> Walk:
        """Return a walk with the newest task first, along the route that leads to the fewest
        tasks."""
        if self._selection.ids:
            return Walk(
                Candidates(Task.objects.filter(self._selection.condition()), "pk", "pk"), Q()
            )
        size, first = min(self._sized, key=itemgetter(0))
        others = [route.candidates for _, route in self._sized if route is not first]
        return Walk(first.candidates, self._beyond(first), others, is_few=size <= MAX_FEW)

    def _narrowest(self) -> tuple[int, Route | None]:
        """Return (number of tasks, route) of the filter that leaves the fewest tasks, the split
        aside."""
        others = [(size, route) for size, route in self._sized if route.filter != "split"]
        return min(others, key=itemgetter(0), default=(MAX_COUNTED, None))

    def _beyond(self, route: Route) -> Q:
        """Return the conditions that the route does not cover, which are tested for each task."""
        filters = replace(self._selection, split=None)
        if self._selection.is_served_by_split:
            filters = replace(filters, state="")
        if route.filter and route.is_exact:
            filters = replace(filters, **{route.filter: getattr(_EVERYTHING, route.filter)})
        rest = filters.condition()
        if self._selection.split is None or route.filter == "split":
            return rest
        # looked up task by task, because the walk goes along tasks
        return rest & Q(Exists(_places(self._selection, self._split).filter(task=OuterRef("pk"))))


def _batch(walk: Walk, start: int | None, order: Order, *, backward: bool) -> SelectionBatch:
    rows = walk.found[::-1] if backward else walk.found
    ends: list[int | None] = [rows[0].key, rows[-1].key] if rows else [start, start]
    ends[0 if backward else 1] = walk.at
    first, last = (str(WalkCursor(key, order)) for key in ends)
    positions = tuple(candidate.key for candidate in rows) if order == "split" else ()
    return SelectionBatch(
        tuple(candidate.task for candidate in rows),
        order,
        positions,
        first,
        last,
        walk.is_last,
        walk.seen,
    )
