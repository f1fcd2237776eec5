"""Selection: which tasks. The task list and every bulk action go by it, so a filter means one thing everywhere."""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from django.db.models import Q, QuerySet

from environments.buckets import BUCKETS
from environments.curation.candidates import Candidate, Candidates, Chain, Key, read_cursor, write_cursor
from environments.curation.conditions import contains, is_flagged, is_from, is_in_bucket, is_tagged, stands_in
from environments.curation.places import places
from environments.curation.rates import by_rate
from environments.flags import flagged
from environments.models import Environment, SplitEntry, Task, TaskTag

CHUNKS = (200, 800, 2000, 5000)
"""Candidates asked about together: few at first, for mostly they are found at once."""
QUICK_SECONDS = 0.01
"""Of a look whose time is limited, only a chunk that took less is followed by a larger one."""
FEW = 1000
"""A filter that leaves no more tasks than this goes first, whatever the order is by."""
MOST_IDS = 10_000
SOURCES = ("code", "import", "edit", "played", "dropped")
STATES = ("active", "quarantined")
FLAGS = ("open",)


@dataclass(frozen=True, slots=True)
class Batch:
    """Some tasks of a selection, in its order."""

    ids: tuple[int, ...]
    positions: tuple[int, ...]
    """Where they stand, if the selection is of a split; else empty."""
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
class Selection:
    """Tasks that satisfy all that is given; with `ids` these alone, in the environment if one is given.

    Newest first; of a split in its order; of a bucket as `rates.by_rate` has them.
    """

    environment: int | None = None
    split: int | None = None
    """Tasks that stand in it, quarantined ones included."""
    tag: str = ""
    state: Literal["", "active", "quarantined"] | str = ""
    source: Literal["", "code", "import", "edit", "played", "dropped"] | str = ""
    """Where it came from first; or dropped: a class listed it once, and none does now."""
    bucket: Literal["", "unseen", "hopeless", "learnable", "saturated"] | str = ""
    """By the thresholds in the settings."""
    search: str = ""
    """A part of the spec's text, as written or as JSON escapes it; the case of ASCII letters does not matter."""
    ids: tuple[int, ...] = ()
    flags: Literal["", "open"] | str = ""
    """open: somebody said that it is broken, and no curator has settled that."""

    @classmethod
    def parse(cls, values: Mapping[str, str]) -> Selection:
        """From the parameters of a URL or form, by the names of the fields above, `ids` joined by commas.

        What is unknown or unreadable counts as not given.
        """
        return cls(
            environment=_number(values.get("environment")),
            split=_number(values.get("split")),
            tag=values.get("tag", ""),
            state=_one_of(STATES, values.get("state")),
            source=_one_of(SOURCES, values.get("source")),
            bucket=_one_of(BUCKETS, values.get("bucket")),
            flags=_one_of(FLAGS, values.get("flags")),
            search=values.get("search", "").strip(),
            ids=tuple(number for text in values.get("ids", "").split(",")[:MOST_IDS] if (number := _number(text))),
        )

    def values(self) -> dict[str, str]:
        """What `parse` reads; fields that are not given are left out."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: _written(value) for name, value in given.items() if value not in (None, "", ())}

    def condition(self) -> Q:
        """The same as a condition on a queryset of Task."""
        wanted = Q() if self.environment is None else Q(environment=self.environment)
        if self.ids:
            return wanted & Q(pk__in=self.ids)
        wanted &= Q() if self.split is None else stands_in(self.split)
        wanted &= is_tagged(self.tag) if self.tag else Q()
        wanted &= Q(state=self.state) if self.state else Q()
        wanted &= is_from(self.source) if self.source else Q()
        wanted &= is_in_bucket(self.bucket) if self.bucket else Q()
        wanted &= is_flagged() if self.flags else Q()
        return wanted & (contains(self.search) if self.search else Q())

    def batch(self, after: str = "", limit: int = 50, *, backward: bool = False, seconds: float | None = None) -> Batch:
        """The next `limit` tasks beyond the cursor, fewer when `seconds` have passed. A cursor that cannot be read
        counts as none.
        """
        candidates = self._candidates()
        rest = replace(self, split=None) if self._is_by_position else self  # its places lead to nothing else
        look = _Look(candidates, rest.condition(), read_cursor(after, candidates), backward)
        until = None if seconds is None else time.monotonic() + seconds
        look.find(limit, until)
        return look.batch(has_positions=self._is_by_position)

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

    def _candidates(self) -> Candidates | Chain:
        """The first of the ways to the tasks gives the order; those with few tasks narrow it."""
        if self.ids:
            return Candidates(Task.objects.filter(pk__in=self.ids), ("pk",), "pk")
        first, *others = [*self._ways(), self._all()]
        narrow = [tasks for other in others[:-1] if (tasks := other.few(FEW)) is not None]
        if not narrow:
            return first
        tasks = min(narrow, key=len)
        return _by_position(self._entries(tasks)) if self._is_by_position else first.within(tasks)

    def _ways(self) -> Iterator[Candidates | Chain]:
        """Indexes that lead to tasks of this selection, and to some more."""
        if self.split is not None:
            yield _by_position(self._entries())
        if self.bucket in ("hopeless", "learnable", "saturated"):
            yield by_rate(self.bucket, self._environments())
        if self.flags:
            yield Candidates(flagged(), ("pk",), "pk")
        if self.tag and "\0" not in self.tag:
            yield Candidates(TaskTag.objects.filter(name=self.tag), ("task_id",), "task_id")
        if self.state == "quarantined":
            yield Candidates(self._of_environments().filter(state="quarantined"), ("pk",), "pk")
        if self.source == "dropped":
            yield Candidates(self._of_environments().filter(dropped__isnull=False), ("pk",), "pk")
        if self.source in ("import", "edit", "played"):
            rows = Task.objects.filter(source=self.source).exclude(source="code")  # as the index has it
            yield Candidates(rows, ("pk",), "pk")

    def _all(self) -> Candidates:
        tasks = Task.objects.all() if self.environment is None else Task.objects.filter(environment=self.environment)
        return Candidates(tasks, ("pk",), "pk", is_all=True)

    def _of_environments(self) -> QuerySet[Task]:
        """Naming every environment, for an index that begins with them."""
        return Task.objects.filter(environment__in=self._environments())

    def _environments(self) -> list[int]:
        """In the order of hosting."""
        every = Environment.objects.values_list("pk", flat=True)
        return list(every) if self.environment is None else [self.environment]


class _Look:
    """One walk along the candidates, and what it found."""

    def __init__(self, candidates: Candidates | Chain, condition: Q, start: Key | None, backward: bool) -> None:
        self._candidates, self._condition, self._backward = candidates, condition, backward
        self._start: Key | None = start
        self._at: Key | None = start
        self._found: list[Candidate] = []
        self._seen = 0
        self._is_last = False

    def find(self, limit: int, until: float | None) -> None:
        sizes = iter(CHUNKS)
        size = next(sizes)
        while not self._is_last and len(self._found) < limit:
            started = time.monotonic()
            self._take(self._candidates.next(self._at, size, backward=self._backward), size, limit)
            now = time.monotonic()
            if until is not None and now > until:
                return
            if until is None or now - started < QUICK_SECONDS:
                size = next(sizes, size)

    def _take(self, chunk: list[Candidate], size: int, limit: int) -> None:
        tasks = Task.objects.filter(self._condition, self._candidates.these(chunk))
        wanted = set(tasks.values_list("pk", flat=True))
        for candidate in chunk:
            if len(self._found) == limit:
                return
            self._at = candidate.key
            self._seen += 1
            if candidate.task in wanted:
                self._found.append(candidate)
        self._is_last = len(chunk) < size

    def batch(self, *, has_positions: bool) -> Batch:
        found = self._found[::-1] if self._backward else self._found
        ends: list[Key | None] = [found[0].key, found[-1].key] if found else [self._start, self._start]
        ends[0 if self._backward else 1] = self._at
        return Batch(
            ids=tuple(candidate.task for candidate in found),
            positions=tuple(int(candidate.key[0]) for candidate in found) if has_positions else (),
            first=write_cursor(ends[0]),
            last=write_cursor(ends[1]),
            is_last=self._is_last,
            seen=self._seen,
        )


def _by_position(entries: QuerySet[SplitEntry]) -> Candidates:
    return Candidates(entries, ("position",), "task_id", is_rising=True)


def _once(ids: Iterator[int]) -> Iterator[int]:
    known: set[int] = set()
    for task in ids:
        if task not in known:
            known.add(task)
            yield task


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 19 else None


def _one_of(names: tuple[str, ...], text: str | None) -> str:
    return text if text in names else ""


def _written(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
