"""Changes of splits: the one writer of what a split holds. Driven by sync, curation and imports. Blocking.

A split's places carry the versions between which they hold: one is seen at version v if since <= v and (until is null
or until > v). A change writes for the next version, in batches that nobody sees, and `commit` makes all of it visible
by one short update, in several splits together if need be. What an interrupted change left is removed by the next one.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from types import TracebackType
from typing import TypeVar

from django.db import transaction
from django.db.models import F, Max, Q, QuerySet
from django.utils import timezone

from environments.database.bulk import execute
from environments.database.write_turns import give_way
from environments.errors import OrsError
from environments.models import Split, SplitEntry, SplitRemoval, Task
from environments.tasks.split_positions import renew, stretch_of

BATCH = 900
"""Places written in one transaction: some 30 ms; also within SQLite's number of parameters."""
CLAIM_SECONDS = 20.0
"""A change that has written nothing for so long is dead."""
RETRY_SECONDS = 0.1

_INSERT = """
    INSERT INTO environments_splitentry (split_id, position, task_id, source_hash, is_hidden, since)
    SELECT %s, CAST(value->>0 AS integer), CAST(value->>1 AS bigint), value->>2, CAST(value->>3 AS integer) = 1, %s
    FROM {rows} WHERE true
"""

_CLAIM = timedelta(seconds=CLAIM_SECONDS)
UNFROZEN = {"frozen": None, "frozen_hash": ""}
"""Columns of a split whose content may change."""

T = TypeVar("T")


class FrozenSplit(OrsError):
    def __init__(self, split: Split) -> None:
        super().__init__(f"Split {split.name!r} of {split.environment.name!r} is frozen; unfreeze it to change it.")


class SplitBusy(OrsError):
    def __init__(self, split: Split) -> None:
        super().__init__(
            f"Split {split.name!r} of {split.environment.name!r} is being changed by somebody else; try again when "
            f"that is done, or in half a minute if it was interrupted."
        )


class SplitGone(OrsError):
    def __init__(self, split: Split) -> None:
        super().__init__(f"Split {split.name!r} does not exist any more.")


@dataclass(frozen=True, slots=True)
class SplitPlace:
    """One place of a split's whole content; `source_hash`: of the task that the class lists there, empty for none."""

    task: int
    source_hash: str = ""


class SplitChange:
    """One change of one split. A context manager: entering claims the split, leaving without `commit` undoes it.

    Its methods may be called in any order; each sees what those before it did. Every one of them raises SplitBusy when
    the claim was lost, because nothing had been written for CLAIM_SECONDS.
    """

    def __init__(
        self,
        split: Split,
        *,
        progress: Callable[[int], None] | None = None,
        wait_seconds: float = 0.0,
        serves: bool = True,
        becomes: Mapping[str, object] | None = None,
        unfreezes: bool = False,
    ) -> None:
        """`progress` is told after each batch how many places have been written. `wait_seconds`: how long to wait
        for a change that is under way. `serves`: the commit makes it a served split; else it stays what it is.
        `becomes`: columns of the split that the commit writes too. `unfreezes`: it may be frozen until the commit."""
        self.split = split
        served, unfrozen = {"is_served": True} if serves else {}, UNFROZEN if unfreezes else {}
        self._becomes = {**(becomes or {}), **served, **unfrozen}
        self._wait_seconds = wait_seconds
        self.is_committed = False
        self._token = uuid.uuid4().hex
        self._row = Split.objects.filter(pk=split.pk)
        self._changeable = self._row if unfreezes else self._row.filter(frozen=None)
        self._entries = SplitEntry.objects.filter(split=split.pk)
        self._progress, self._written = progress, 0
        self._has_staged = False
        self._removals: list[int] = []
        self._stretches: set[int] = set()  # in which something changed
        self._served = 0  # by how many the tasks served will be more

    def __enter__(self) -> SplitChange:
        """Raises: FrozenSplit, SplitBusy, SplitGone."""
        was_clean = self._claim()
        self._kept = time.monotonic()
        self.split.refresh_from_db()
        self._next = self.split.version + 1
        if not was_clean:
            self._discard()
            self._purge()
        last = self._entries.aggregate(last=Max("position"))["last"]
        self._end = 0 if last is None else last + 1
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._has_staged and not self.is_committed and self._row.filter(changing=self._token).exists():
            self._discard()
        self._purge()
        if self.is_committed:
            renew(self.split.pk, self._next, self._stretches)
        self._row.filter(changing=self._token).update(changing="", changing_until=None)

    def add(self, tasks: Iterable[int]) -> int:
        """Append tasks, in order; one that stands in the split already is skipped. Returns how many were added."""
        added = 0
        for batch in _batches(tasks):
            there = set(self._open(batch).values_list("task_id", flat=True))
            new = [task for task in dict.fromkeys(batch) if task not in there]
            self._insert([(position, task, "") for position, task in enumerate(new, self._end)])
            self._end += len(new)
            added += len(new)
        return added

    def remove(self, tasks: Iterable[int]) -> int:
        """Take out every place of the tasks; a sync does not bring back what the class lists. Returns how many."""
        removed = 0
        for batch in _batches(tasks):
            places = list(self._open(batch))
            self._forget(places)
            self._finish(places)
            removed += len(places)
        return removed

    def replace(self, old: int, new: int) -> int:
        """`new` takes the places of `old`; where it stands in the split already, `old` just goes. Returns how many."""
        return self.replace_all({old: new})

    def replace_all(self, tasks: Mapping[int, int]) -> int:
        """As `replace`, for many: old -> new."""
        replaced = 0
        for batch in _batches(tasks.items()):
            news = dict(batch)
            places = list(self._open(news.keys()))
            there = self._open(news.values()).values_list("task_id", flat=True)
            heirs = {task: task for task in set(there) - news.keys()}  # new -> the one task that it takes over from
            kept = [at for at in places if heirs.setdefault(news[at.task_id], at.task_id) == at.task_id]
            self._forget([at for at in places if at not in kept])
            self._finish(places)
            self._insert([(at.position, news[at.task_id], at.source_hash) for at in kept])
            replaced += len(places)
        return replaced

    def hold(self) -> None:
        """Keep the claim while nothing is written; to be called more often than every CLAIM_SECONDS / 2."""
        if time.monotonic() > self._kept + CLAIM_SECONDS / 4:
            self._keep_claim()

    def refresh(self, tasks: Iterable[int]) -> int:
        """Hide places of tasks that are quarantined now, show those of tasks that no longer are. Returns how many."""
        changed = 0
        for batch in _batches(tasks):
            quarantined = Q(task__state="quarantined")
            wrong = (quarantined & Q(is_hidden=False)) | (~quarantined & Q(is_hidden=True))
            places = list(self._open(batch).filter(wrong))
            self._finish(places)
            self._insert([(at.position, at.task_id, at.source_hash) for at in places])
            changed += len(places)
        return changed

    def hide(self, tasks: Iterable[int]) -> int:
        """Stop serving tasks at the places they keep, whatever their state says yet. Returns how many places."""
        return self._turn(tasks, is_hidden=True)

    def show(self, tasks: Iterable[int]) -> int:
        """Serve tasks again at the places they kept, whatever their state says yet. Returns how many places."""
        return self._turn(tasks, is_hidden=False)

    def write(self, **columns: object) -> None:
        """Write columns of the split at once, without the commit."""
        if not self._row.filter(changing=self._token).update(**columns):
            raise SplitBusy(self.split)

    @property
    def has_staged(self) -> bool:
        """Whether there is anything to commit."""
        return self._has_staged

    def place(self, order: Sequence[SplitPlace]) -> None:
        """Make `order` the whole content. Places that are right already stay as they are."""
        for start in range(0, len(order), BATCH):
            stop = min(start + BATCH, len(order))
            there = {at.position: at for at in self._open().filter(position__gte=start, position__lt=stop)}
            wrong = [n for n in range(start, stop) if not _is_at(there.get(n), order[n])]
            self._finish([there[n] for n in wrong if n in there])
            self._insert([(n, order[n].task, order[n].source_hash) for n in wrong])
        tail = self._open().filter(position__gte=len(order)).order_by("-position")
        while places := list(tail[:BATCH]):
            self._finish(places)
        self._end = max(self._end, len(order))

    # --- inside -------------------------------------------------------------------------------------------------------

    def _claim(self) -> bool:
        """Whether the change before left nothing behind."""
        until = time.monotonic() + self._wait_seconds
        while True:
            try:
                return self._claim_now()
            except SplitBusy:
                if time.monotonic() > until:
                    raise
            time.sleep(RETRY_SECONDS)

    def _claim_now(self) -> bool:
        now = timezone.now()
        if self._changeable.filter(changing="").update(changing=self._token, changing_until=now + _CLAIM):
            return True
        if self._changeable.filter(changing_until__lt=now).update(changing=self._token, changing_until=now + _CLAIM):
            return False
        row = self._row.select_related("environment").first()
        if row is None:
            raise SplitGone(self.split)
        raise SplitBusy(row) if self._changeable.exists() else FrozenSplit(row)

    def _open(self, tasks: Collection[int] | None = None) -> QuerySet[SplitEntry]:
        """The content as this change has made it so far."""
        if tasks is None:
            return self._entries.filter(until=None)
        # `of` keeps SQLite, which has no statistics, from going through the whole split to find some tasks in it
        found = SplitEntry.objects.alias(of=F("split") + 0).filter(of=self.split.pk, until=None, task__in=tasks)
        return found.order_by("position")

    def _turn(self, tasks: Iterable[int], *, is_hidden: bool) -> int:
        turned = 0
        for batch in _batches(tasks):
            places = list(self._open(batch).exclude(is_hidden=is_hidden))
            self._finish(places)
            self._insert([(at.position, at.task_id, at.source_hash) for at in places], is_hidden=is_hidden)
            turned += len(places)
        return turned

    def _forget(self, places: Sequence[SplitEntry]) -> None:
        """A sync shall not bring these places back, though the class lists them."""
        rows = [SplitRemoval(split=self.split, source_hash=at.source_hash) for at in places if at.source_hash]
        self._removals += [row.pk for row in SplitRemoval.objects.bulk_create(rows)]

    def _finish(self, places: Sequence[SplitEntry]) -> None:
        """These places end with the next version; those that begin with it never were."""
        if not places:
            return
        staged = [at.pk for at in places if at.since == self._next]
        with transaction.atomic():
            self._keep_claim()
            self._entries.filter(pk__in=staged).delete()
            self._entries.filter(pk__in=[at.pk for at in places if at.since != self._next]).update(until=self._next)
        self._stretches.update(stretch_of(at.position) for at in places)
        self._served -= sum(not at.is_hidden for at in places)
        give_way()

    def _insert(self, rows: Sequence[tuple[int, int, str]], *, is_hidden: bool | None = None) -> None:
        """Places (position, task, source hash) that begin with the next version; hidden by the tasks' state if None."""
        if not rows:
            return
        hidden = {task for _, task, _ in rows} if is_hidden else set[int]()
        if is_hidden is None:
            tasks = Task.objects.filter(pk__in=[task for _, task, _ in rows], state="quarantined")
            hidden = set(tasks.values_list("pk", flat=True))
        with transaction.atomic():
            self._keep_claim()
            execute(_INSERT, [self.split.pk, self._next], [(*row, int(row[1] in hidden)) for row in rows])
        self._stretches.update(stretch_of(position) for position, _, _ in rows)
        self._served += sum(task not in hidden for _, task, _ in rows)
        self._written += len(rows)
        give_way()
        if self._progress:
            self._progress(self._written)

    def _keep_claim(self) -> None:
        self._has_staged = True
        self._kept = time.monotonic()
        self.write(changing_until=timezone.now() + _CLAIM)

    def _publish(self) -> None:
        """Inside the transaction of `commit`."""
        values = {**self._becomes, "version": self._next, "size": F("size") + self._served}
        if not self._changeable.filter(changing=self._token).update(**values):
            raise SplitBusy(self.split)

    def _discard(self) -> None:
        """Undo what was staged for the next version."""
        _delete(self._entries.filter(since=self._next))
        for batch in _pieces(self._entries.filter(until=self._next)):
            self._entries.filter(pk__in=batch).update(until=None)
        SplitRemoval.objects.filter(pk__in=self._removals).delete()

    def _purge(self) -> None:
        """Remove places that ended; who reads the split now has a snapshot of its own."""
        version = self._row.values_list("version", flat=True).first()
        _delete(self._entries.filter(until__lte=version or 0))


def commit(*changes: SplitChange, also: Callable[[], object] = lambda: None) -> None:
    """Make all that was staged visible at once, with what `also` writes, in one short transaction.

    Raises: SplitBusy when a claim was lost; then nothing is visible.
    """
    with transaction.atomic():
        for change in sorted(changes, key=lambda change: change.split.pk):  # the same order everywhere: no deadlock
            change._publish()
        also()
    for change in changes:
        change.is_committed = True


def splits_of(tasks: Iterable[int]) -> list[Split]:
    """Unfrozen splits in which one of the tasks stands, or will when the change under way there is committed."""
    found: set[int] = set()
    for batch in _batches(tasks):
        found.update(
            SplitEntry.objects.filter(task__in=batch, until=None).values_list("split_id", flat=True).distinct()
        )
    return list(Split.objects.filter(pk__in=found, frozen=None).select_related("environment").order_by("pk"))


def _is_at(entry: SplitEntry | None, place: SplitPlace) -> bool:
    return entry is not None and (entry.task_id, entry.source_hash) == (place.task, place.source_hash)


def _batches(items: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(items)
    while batch := list(islice(rest, BATCH)):
        yield batch


def _pieces(rows: QuerySet[SplitEntry]) -> Iterator[list[int]]:
    """Keys of the rows, as long as there are any: the caller makes each piece disappear from `rows`."""
    while keys := list(rows.values_list("pk", flat=True)[:BATCH]):
        yield keys


def _delete(rows: QuerySet[SplitEntry]) -> None:
    for keys in _pieces(rows):
        SplitEntry.objects.filter(pk__in=keys).delete()
        give_way()
