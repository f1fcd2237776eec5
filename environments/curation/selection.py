"""Selection: which tasks. The task list and every bulk action go by it, so a filter means one thing everywhere.

Ways: for each filter of a selection the index that leads to its tasks, by their ids.

What tasks several filters have in common is found by going along all their ways at once (`look.py`).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from operator import itemgetter
from typing import Any, Literal

from django.db.models import Q, QuerySet

from environments.curation import walk as look
from environments.curation.conditions import stands_at
from environments.curation.filters import Filters
from environments.curation.walk import Candidates, Order, Walk, WalkCursor
from environments.database.storable import is_storable
from environments.models import Split, Task, TaskFlag, TaskStatistics, TaskTag
from environments.tasks.places import listed, places, places_of

Filter = Literal["", "environment", "split", "tag", "state", "source", "bucket", "flags"]


@dataclass(frozen=True, slots=True)
class Route:
    filter: Filter
    """The filter whose tasks it leads to; empty: none, it leads to all tasks."""
    candidates: Candidates
    is_exact: bool = True
    """Whether it leads to no other tasks than those that satisfy the filter."""
    known_size: int | None = None

    def size(self, most: int) -> int:
        """To how many tasks it leads, counted up to `most`."""
        return self.candidates.size(most) if self.known_size is None else min(self.known_size, most)


def ways(chosen: Filters, split: Split | None) -> list[Route]:
    """One for each filter that is given, the search aside; those that mostly lead to few tasks first.

    `split`: the one that is chosen, if there is such a one in the environment.
    """
    return list(_ways(chosen, split)) or [Route("", _by_id(Task.objects.all()))]


def _ways(chosen: Filters, split: Split | None) -> Iterator[Route]:
    if chosen.tag:
        tagged = TaskTag.objects.filter(name=chosen.tag) if is_storable(chosen.tag) else TaskTag.objects.none()
        yield Route("tag", _by_task(tagged))
    if chosen.flags:
        # distinct: a task may have several flags, and stand at several places of a split
        yield Route("flags", _by_task(TaskFlag.objects.filter(settled=None).distinct()))
    if chosen.source == "dropped":
        yield Route("source", _by_id(Task.objects.filter(dropped__isnull=False)))
    elif chosen.source:
        yield Route("source", _by_id(Task.objects.filter(source=chosen.source)))
    if chosen.bucket == "unseen":
        yield Route("bucket", _by_id(Task.objects.filter(is_unseen=True)), is_exact=False)
    elif chosen.bucket:
        yield Route("bucket", _by_task(TaskStatistics.objects.filter(by="all", bucket=chosen.bucket)), is_exact=False)
    if chosen.state:
        yield Route("state", _by_id(Task.objects.filter(state=chosen.state)))
    if chosen.split is not None:  # which is of one environment
        size = split.size if split else 0  # without those that it hides
        yield Route("split", _by_task(places_of(split).distinct()), known_size=size)
    elif chosen.environment is not None:
        yield Route("environment", _by_id(Task.objects.filter(environment=chosen.environment)))


def _by_id(tasks: QuerySet[Any]) -> Candidates:
    return Candidates(tasks, "pk", "pk")


def _by_task(rows: QuerySet[Any]) -> Candidates:
    return Candidates(rows, "task_id", "task_id")


FEW = 1000
"""A filter that leaves no more tasks than this goes first, whatever the order is by: they are looked at together."""
COUNTED = 20_000
"""The tasks that a filter leaves are counted so far; the way of the filter that leaves the fewest is taken."""
WALKED = 1000
"""So many places of a split are looked at; a page that is not full by then is looked for by the tasks' ids."""


@dataclass(frozen=True, slots=True)
class SelectionBatch:
    """Some tasks of a selection, in its order."""

    ids: tuple[int, ...]
    order: Order
    positions: tuple[int, ...]
    """Where they stand, of tasks in a split's order; else empty."""
    first: str
    """Cursor at the first; `batch(first, backward=True)` is what comes before."""
    last: str
    """Cursor at the last; `batch(last)` is what comes after. When time ran out it stands further, where the look
    ended, as `first` does going backward."""
    is_last: bool
    """Nothing comes after (going backward: before)."""
    seen: int
    """Tasks that were looked at."""


@dataclass(frozen=True, slots=True)
class Count:
    tasks: int
    is_exact: bool
    """Otherwise there are that many at least."""


@dataclass(frozen=True, slots=True)
class Selection(Filters):
    """The tasks that satisfy the filters.

    Batches have the newest first. Of a split they are in its order, unless other filters leave so few of its tasks that
    a walk along its places would take long before it finds some, and yet too many to put them all into that order.
    """

    def batch(
        self, after: str = "", limit: int = 50, *, backward: bool = False, seconds: float | None = None
    ) -> SelectionBatch:
        """The next `limit` tasks beyond the cursor, fewer when `seconds` have passed. A cursor that cannot be read
        counts as none.
        """
        cursor, until = WalkCursor.parse(after), None if seconds is None else look.clock() + seconds
        routes = _Routes(self)
        if self._is_by_position and cursor.order != "newest":
            most = WALKED if cursor.key is None and seconds is not None else None
            if most is None or not routes.is_sparse(limit / most):
                walk = routes.along_places()
                walk.find(limit, cursor.key, backward=backward, until=until, most=most)
                if most is None or walk.is_last or len(walk.found) == limit:
                    return _batch(walk, cursor.key, "split", backward=backward)
        start = cursor.key if cursor.order == "newest" else None
        walk = routes.along_ids()
        walk.find(limit, start, backward=backward, until=until)
        return _batch(walk, start, "newest", backward=backward)

    def all_ids(self) -> array[int]:
        """Every task once, 8 bytes each, in the order of a list that is made of them: the split's, else oldest first.

        Of one import in the order of its file; but those that a class lists by their hashes, as they are inserted.
        """
        if self.ids:
            return self._given_ids()
        if self.split is None:
            tasks = Task.objects.filter(self.condition()).order_by("pk")
            return array("q", tasks.values_list("pk", flat=True).iterator(2000))
        found = places(self.split or 0, self.environment).order_by("position")
        rest = replace(self, split=None, environment=None)
        if rest != Selection():
            found = found.filter(task__in=Task.objects.filter(rest.condition()))
        return array("q", _once(found.values_list("task_id", flat=True).iterator(2000)))

    def _given_ids(self) -> array[int]:
        """The chosen ids: in the split's order those that stand in it, then the others."""
        tasks = list(Task.objects.filter(self.condition()).order_by("pk").values_list("pk", flat=True))
        if self.split is None:
            return array("q", tasks)
        found = places_of(listed(self.split, self.environment), tasks).order_by("position")
        return array("q", _once(chain(found.values_list("task_id", flat=True), tasks)))

    def count(self, limit: int, seconds: float | None = None) -> Count:
        """How many places, or tasks if it is of no split; counted up to `limit` and for so long."""
        batch = self.batch(limit=limit + 1, seconds=seconds)
        return Count(min(len(batch.ids), limit), batch.is_last and len(batch.ids) <= limit)

    # --- inside -------------------------------------------------------------------------------------------------------

    @property
    def _is_by_position(self) -> bool:
        return self.split is not None and not self.ids


_EVERYTHING = Selection()


class _Routes:
    """The ways to the tasks of one selection, and which to take."""

    def __init__(self, chosen: Selection) -> None:
        self._chosen = chosen
        self._split = None if chosen.split is None or chosen.ids else listed(chosen.split, chosen.environment)
        every = [] if chosen.ids else ways(chosen, self._split)
        self._sized = [(way.size(COUNTED) if len(every) > 1 else COUNTED, way) for way in every]
        """To how many tasks each leads; not counted where there is no choice."""

    def is_sparse(self, share: float) -> bool:
        """Whether another filter leaves many tasks, and yet no more than this share of the split's places."""
        least, _ = self._narrowest()
        return FEW < least < min(COUNTED, share * (self._split.size if self._split else 0))

    def along_places(self) -> Walk:
        """Along the split's places in their order; if another filter leaves few tasks, along theirs only."""
        least, way = self._narrowest()
        few = way.candidates.tasks(FEW) if way and least <= FEW else None
        along = Candidates(places_of(self._split, few), "position", "task_id", is_rising=True)
        # its places lead to no others
        rest = replace(self._chosen, split=None, environment=None).condition()
        return Walk(along, rest, is_few=few is not None)

    def along_ids(self) -> Walk:
        """Newest first, along the way that leads to the fewest tasks."""
        if self._chosen.ids:
            return Walk(Candidates(Task.objects.filter(self._chosen.condition()), "pk", "pk"), Q())
        size, first = min(self._sized, key=itemgetter(0))
        others = [way.candidates for _, way in self._sized if way is not first]
        return Walk(first.candidates, self._beyond(first), others, is_few=size <= FEW)

    def _narrowest(self) -> tuple[int, Route | None]:
        """Of all filters but the split, the one that leads to the fewest tasks: to how many, and its way."""
        others = [(size, way) for size, way in self._sized if way.filter != "split"]
        return min(others, key=itemgetter(0), default=(COUNTED, None))

    def _beyond(self, way: Route) -> Q:
        """What is asked beyond that way, looked up task by task."""
        done = {way.filter: getattr(_EVERYTHING, way.filter)} if way.filter and way.is_exact else {}
        rest = replace(self._chosen, **{"split": None, **done}).condition()
        return rest if self._chosen.split is None or way.filter == "split" else rest & stands_at(self._split)


def _batch(walk: Walk, start: int | None, order: Order, *, backward: bool) -> SelectionBatch:
    found = walk.found[::-1] if backward else walk.found
    ends: list[int | None] = [found[0].key, found[-1].key] if found else [start, start]
    ends[0 if backward else 1] = walk.at
    first, last = (str(WalkCursor(key, order)) for key in ends)
    positions = tuple(candidate.key for candidate in found) if order == "split" else ()
    return SelectionBatch(
        tuple(candidate.task for candidate in found), order, positions, first, last, walk.is_last, walk.seen
    )


def _once(ids: Iterable[int]) -> Iterator[int]:
    known: set[int] = set()
    for task in ids:
        if task not in known:
            known.add(task)
            yield task
