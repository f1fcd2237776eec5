"""Selection: which tasks. The task list and every bulk action go by it, so a filter means one thing everywhere."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, replace

from django.db.models import Q, QuerySet

from environments.curation import look
from environments.curation.candidates import Candidates
from environments.curation.conditions import stands_at
from environments.curation.cursor import Cursor, Order
from environments.curation.filters import Filters
from environments.curation.look import Look
from environments.curation.places import places
from environments.curation.ways import Way, ways
from environments.models import SplitEntry, Task

FEW = 1000
"""A filter that leaves no more tasks than this goes first, whatever the order is by: they are looked at together."""
COUNTED = 20_000
"""Of the tasks that a filter leaves; the way of the filter that leaves the fewest is taken."""
WALKED = 1000
"""Of a split's places; a page that is not full by then is looked for by the tasks' ids."""


@dataclass(frozen=True, slots=True)
class Batch:
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

    Newest first. Of a split in its order, unless other filters leave so few of its tasks that a walk along its places
    would take long before it finds some, and yet too many to put them all into that order.
    """

    def batch(self, after: str = "", limit: int = 50, *, backward: bool = False, seconds: float | None = None) -> Batch:
        """The next `limit` tasks beyond the cursor, fewer when `seconds` have passed. A cursor that cannot be read
        counts as none.
        """
        cursor, until = Cursor.parse(after), None if seconds is None else look.clock() + seconds
        if self._is_by_position and cursor.order != "newest":
            most = WALKED if cursor.key is None and seconds is not None else None
            walk = self._along_places()
            walk.find(limit, cursor.key, backward=backward, until=until, most=most)
            if most is None or walk.is_last or len(walk.found) == limit:
                return _batch(walk, cursor.key, "split", backward=backward)
        start = cursor.key if cursor.order == "newest" else None
        walk = self._along_ids()
        walk.find(limit, start, backward=backward, until=until)
        return _batch(walk, start, "newest", backward=backward)

    def all_ids(self) -> array[int]:
        """Every task once, 8 bytes each; in the split's order, else oldest first."""
        if not self._is_by_position:
            tasks = Task.objects.filter(self.condition()).order_by("pk")
            return array("q", tasks.values_list("pk", flat=True).iterator(2000))
        found, rest = self._entries().order_by("position"), replace(self, split=None, environment=None)
        if rest != Selection():
            found = found.filter(task__in=Task.objects.filter(rest.condition()))
        return array("q", _once(found.values_list("task_id", flat=True).iterator(2000)))

    def count(self, limit: int, seconds: float | None = None) -> Count:
        """How many places, or tasks if it is of no split; counted up to `limit` and for so long."""
        batch = self.batch(limit=limit + 1, seconds=seconds)
        return Count(min(len(batch.ids), limit), batch.is_last and len(batch.ids) <= limit)

    # --- inside -------------------------------------------------------------------------------------------------------

    @property
    def _is_by_position(self) -> bool:
        return self.split is not None and not self.ids

    def _entries(self, tasks: list[int] | None = None) -> QuerySet[SplitEntry]:
        return places(self.split or 0, self.environment, tasks)

    def _along_places(self) -> Look:
        """In the split's order; if another filter leaves few tasks, along theirs only."""
        rest = replace(self, split=None, environment=None)  # its places lead to no others
        narrow = [way for way in ways(rest) if way.filter and way.size(FEW + 1) <= FEW]
        few = narrow[0].candidates.tasks(FEW) if narrow else None
        along = Candidates(self._entries(few), "position", "task_id", is_rising=True)
        return Look(along, rest.condition(), is_few=few is not None)

    def _along_ids(self) -> Look:
        """Newest first, along the way that leads to the fewest tasks."""
        if self.ids:
            return Look(Candidates(Task.objects.filter(self.condition()), "pk", "pk"), Q())
        every = ways(self)
        sizes = [COUNTED] if len(every) == 1 else [way.size(COUNTED) for way in every]
        first = every[sizes.index(min(sizes))]
        others = [way.candidates for way in every if way is not first]
        return Look(first.candidates, self._beyond(first), others, is_few=min(sizes) <= FEW)

    def _beyond(self, way: Way) -> Q:
        """What is asked beyond that way, looked up task by task."""
        done = {way.filter: getattr(_EVERYTHING, way.filter)} if way.filter and way.is_exact else {}
        rest = replace(self, **{"split": None, **done}).condition()
        return rest if self.split is None or way.filter == "split" else rest & stands_at(self.split)


_EVERYTHING = Selection()


def _batch(walk: Look, start: int | None, order: Order, *, backward: bool) -> Batch:
    found = walk.found[::-1] if backward else walk.found
    ends: list[int | None] = [found[0].key, found[-1].key] if found else [start, start]
    ends[0 if backward else 1] = walk.at
    first, last = (str(Cursor(key, order)) for key in ends)
    positions = tuple(candidate.key for candidate in found) if order == "split" else ()
    return Batch(tuple(candidate.task for candidate in found), order, positions, first, last, walk.is_last, walk.seen)


def _once(ids: Iterator[int]) -> Iterator[int]:
    known: set[int] = set()
    for task in ids:
        if task not in known:
            known.add(task)
            yield task
