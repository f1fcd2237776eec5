"""The one writer of a split's content. Used by sync, curation and imports. Blocking.

Each place of a split records the versions between which it is valid: it is visible at version v if
since <= v and (until is null or until > v). A change writes for the next version, in batches that
are not visible yet, and `commit` makes all of it visible with one short update, in several splits
at once if needed. The next change removes what an interrupted one left.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from types import TracebackType

from django.db import transaction
from django.db.models import F, Max, Q, QuerySet
from django.utils import timezone

from environments.database.json_rows import among, execute, rows_among
from environments.database.write_pauses import give_way, rows_at_once
from environments.models import Split, SplitEntry, SplitRemoval
from environments.tasks.split_errors import FrozenSplit, SplitBusy, SplitGone
from environments.tasks.split_indexes import renew, stretch_of
from environments.tasks.task_places import (
    FormerPlace,
    SplitPlace,
    StoredPlace,
    batched,
    stored_places,
)

BATCH = 900
"""Places written in one transaction, which takes about 30 ms. Also within SQLite's limit of
parameters."""
MAX_DELETED = 3000
"""Places that nobody sees any more and that are deleted in one transaction."""
CLAIM_SECONDS = 20.0
"""A change that has written nothing for this long is considered dead."""
RETRY_SECONDS = 0.1

_INSERT = """
    INSERT INTO environments_splitentry (split_id, position, task_id, source_hash, is_hidden, since)
    SELECT %s, CAST(value->>0 AS integer), CAST(value->>1 AS bigint), value->>2, CAST(value->>3 AS integer) = 1, %s
    FROM {rows} WHERE true
"""
_QUARANTINED = "SELECT id FROM environments_task WHERE state = 'quarantined' AND id {among}"

_CLAIM = timedelta(seconds=CLAIM_SECONDS)
UNFROZEN = {"frozen": None, "frozen_hash": ""}
"""Values of the columns `frozen` and `frozen_hash` of a split that is not frozen."""


class SplitChange:
    """One change of one split. A context manager: entering claims the split, leaving without
    `commit` undoes the change.

    The methods may be called in any order; each sees the effects of earlier calls. Every method
    raises SplitBusy when the claim was lost because nothing had been written for CLAIM_SECONDS.
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
        """Prepare a change of `split`.

        progress: called after each batch with the number of places written so far.
        wait_seconds: how long to wait for another change of the split to finish.
        serves: the commit marks the split as served; otherwise it stays as it is.
        becomes: columns of the split that the commit writes too.
        unfreezes: the split may be frozen; the commit unfreezes it.
        """
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
        self._keeps_ended = False  # places that this change ended stay in the database
        self._removals: list[int] = []
        self._put_back: set[int] = set()  # removals that the commit deletes
        self._stretches: set[int] = set()  # the stretches in which something changed
        self._served = 0  # change in the number of served tasks

    def __enter__(self) -> SplitChange:
        """Claim the split. Raises: FrozenSplit, SplitBusy, SplitGone."""
        was_clean = self._claim()
        self._kept = time.monotonic()
        self.split.refresh_from_db()
        self._next = self.split.version + 1
        if not was_clean:
            self._discard()
            self._purge()
        last = self._entries.aggregate(last=Max("position"))["last"]
        self.was_empty = last is None
        """Whether the split had no places, not even some that have ended."""
        self._end = 0 if last is None else last + 1
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if (
            self._has_staged
            and not self.is_committed
            and self._row.filter(changing=self._token).exists()
        ):
            self._discard()
        if not (self.was_empty or (self._keeps_ended and self.is_committed)):
            self._purge()
        if self.is_committed:
            renew(self.split.pk, self._next, self._stretches, was_empty=self.was_empty)
        self._row.filter(changing=self._token).update(changing="", changing_until=None)

    def add(self, tasks: Iterable[int]) -> int:
        """Append tasks in order and return how many were added. Tasks that are already in the split
        are skipped."""
        added = 0
        for batch in batched(tasks, BATCH):
            there = set(self._open(batch).values_list("task_id", flat=True))
            new = [task for task in dict.fromkeys(batch) if task not in there]
            self._insert([(position, task, "") for position, task in enumerate(new, self._end)])
            self._end += len(new)
            added += len(new)
        return added

    def remove(self, tasks: Iterable[int]) -> int:
        """Remove every place of the tasks and return how many there were. A sync will not add them
        back."""
        removed = 0
        for batch in batched(tasks, BATCH):
            places = stored_places(self._open(batch))
            self._forget(places)
            self._finish(places)
            removed += len(places)
        return removed

    def put_back(self, places: Iterable[FormerPlace]) -> int:
        """Put tasks back at the positions that they had, or at the end where another task is now.

        Tasks that are in the split again keep their places. Returns how many came to the end.
        """
        moved = 0
        for batch in batched(places, BATCH):
            there = set(
                self._open({place.task for place in batch}).values_list("task_id", flat=True)
            )
            positions = [place.position for place in batch]
            taken = set(
                self._open().filter(among("position", positions)).values_list("position", flat=True)
            )
            rows = list[tuple[int, int, str]]()
            for place in (place for place in batch if place.task not in there):
                position = (
                    self._end if place.position in taken or place.position < 0 else place.position
                )
                moved += position != place.position
                taken.add(position)
                self._end = max(self._end, position + 1)
                rows.append((position, place.task, place.source_hash))
            self._insert(rows)
            self._remember([content for _, _, content in rows if content])
        return moved

    def places(self, tasks: Collection[int]) -> list[FormerPlace]:
        """Return the places of some tasks, in order, as this change has made them so far."""
        found = self._open(tasks).values_list("position", "task_id", "source_hash")
        return [FormerPlace(*place) for place in found]

    @property
    def is_empty(self) -> bool:
        """Return whether the split has no place, as this change has made it so far."""
        return not self._open().exists()

    def replace(self, old: int, new: int) -> int:
        """Put `new` in the places of `old` and return their number. If `new` is already there,
        `old` is removed."""
        return self.replace_all({old: new})

    def replace_all(self, tasks: Mapping[int, int]) -> int:
        """Put each value of `tasks` in the places of its key and return how many there were; see
        `replace`."""
        replaced = 0
        for batch in batched(tasks.items(), BATCH):
            news = dict(batch)
            places = stored_places(self._open(news.keys()))
            there = self._open(news.values()).values_list("task_id", flat=True)
            # new task -> the one task whose places it takes
            heirs = {task: task for task in set(there) - news.keys()}
            kept = [
                at for at in places if heirs.setdefault(news[at.task_id], at.task_id) == at.task_id
            ]
            self._forget([at for at in places if at not in kept])
            self._finish(places)
            self._insert([(at.position, news[at.task_id], at.source_hash) for at in kept])
            replaced += len(places)
        return replaced

    def end(self) -> None:
        """Remove all places, and leave them in the database for `revive`."""
        self._has_staged = self._keeps_ended = True
        last = -1
        while places := stored_places(
            self._open().filter(position__gt=last).order_by("position")[:BATCH]
        ):
            last = places[-1].position
            self._finish(places)

    def revive(self) -> int:
        """Put back the places that `end` removed with the present version of the split. Return
        their number."""
        ended = self._entries.filter(until=self.split.version).order_by("position")
        last, revived = -1, 0
        while places := stored_places(ended.filter(position__gt=last)[:BATCH]):
            last = places[-1].position
            self._insert([(at.position, at.task_id, at.source_hash) for at in places])
            revived += len(places)
        return revived

    def hold(self) -> None:
        """Keep the claim while nothing is written. Call it more often than every CLAIM_SECONDS /
        2."""
        if time.monotonic() > self._kept + CLAIM_SECONDS / 4:
            self._keep_claim()

    def refresh(self, tasks: Iterable[int]) -> int:
        """Hide the places of quarantined tasks, show those of other tasks, and return how many
        places changed."""
        changed = 0
        for batch in batched(tasks, BATCH):
            quarantined = Q(task__state="quarantined")
            wrong = (quarantined & Q(is_hidden=False)) | (~quarantined & Q(is_hidden=True))
            places = stored_places(self._open(batch).filter(wrong))
            self._finish(places)
            self._insert([(at.position, at.task_id, at.source_hash) for at in places])
            changed += len(places)
        return changed

    def hide(self, tasks: Iterable[int]) -> int:
        """Stop serving tasks, which keep their places, whatever their state is. Return how many
        places changed."""
        return self._set_hidden(tasks, is_hidden=True)

    def show(self, tasks: Iterable[int]) -> int:
        """Serve tasks again at their places, whatever their state is. Return how many places
        changed."""
        return self._set_hidden(tasks, is_hidden=False)

    def write(self, **columns: object) -> None:
        """Write columns of the split immediately, without waiting for the commit."""
        if not self._row.filter(changing=self._token).update(**columns):
            raise SplitBusy(self.split)

    @property
    def has_staged(self) -> bool:
        """Return whether there is anything to commit."""
        return self._has_staged

    def place(self, order: Sequence[SplitPlace]) -> None:
        """Make `order` the whole content of the split. Places that are already right are left
        alone."""
        size = rows_at_once(BATCH)
        for start in range(0, len(order), size):
            stop = min(start + size, len(order))
            now = self._open().filter(position__gte=start, position__lt=stop)
            there = {at.position: at for at in stored_places(now)} if start < self._end else {}
            wrong = [n for n in range(start, stop) if not _is_at(there.get(n), order[n])]
            self._finish([there[n] for n in wrong if n in there])
            self._insert([(n, order[n].task, order[n].source_hash) for n in wrong])
        tail = self._open().filter(position__gte=len(order)).order_by("-position")
        while self._end > len(order) and (places := stored_places(tail[:BATCH])):
            self._finish(places)
        self._end = max(self._end, len(order))

    def _claim(self) -> bool:
        """Claim the split and return whether the previous change left nothing to clean up."""
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
        if self._changeable.filter(changing="").update(
            changing=self._token, changing_until=now + _CLAIM
        ):
            return True
        if self._changeable.filter(changing_until__lt=now).update(
            changing=self._token, changing_until=now + _CLAIM
        ):
            return False
        row = self._row.select_related("environment").first()
        if row is None:
            raise SplitGone(self.split)
        raise SplitBusy(row) if self._changeable.exists() else FrozenSplit(row)

    def _open(self, tasks: Collection[int] | None = None) -> QuerySet[SplitEntry]:
        """Return the places of the split as this change has made them so far, or only those of
        `tasks`."""
        if tasks is None:
            return self._entries.filter(until=None)
        # `of` hides the column from SQLite's planner, which would otherwise scan the whole split to
        # find a few tasks.
        found = SplitEntry.objects.alias(of=F("split") + 0).filter(
            among("task_id", tasks), of=self.split.pk, until=None
        )
        return found.order_by("position")

    def _set_hidden(self, tasks: Iterable[int], *, is_hidden: bool) -> int:
        changed = 0
        for batch in batched(tasks, BATCH):
            places = stored_places(self._open(batch).exclude(is_hidden=is_hidden))
            self._finish(places)
            self._insert(
                [(at.position, at.task_id, at.source_hash) for at in places], is_hidden=is_hidden
            )
            changed += len(places)
        return changed

    def _forget(self, places: Sequence[StoredPlace]) -> None:
        """Record that a sync must not add these places back, although the class lists them."""
        rows = [
            SplitRemoval(split=self.split, source_hash=at.source_hash)
            for at in places
            if at.source_hash
        ]
        self._removals += [row.pk for row in SplitRemoval.objects.bulk_create(rows)]

    def _remember(self, hashes: Sequence[str]) -> None:
        """Let the commit forget one removal of each hash, because its task is back."""
        wanted = Counter(hashes)
        rows = SplitRemoval.objects.filter(among("source_hash", wanted), split=self.split)
        for pk, content in rows.values_list("pk", "source_hash") if wanted else ():
            if wanted[content] and pk not in self._put_back:
                wanted[content] -= 1
                self._put_back.add(pk)

    def _finish(self, places: Sequence[StoredPlace]) -> None:
        """End these places with the next version, and delete those that would only have started
        with it."""
        if not places:
            return
        staged = [at.pk for at in places if at.since == self._next]
        with transaction.atomic():
            self._keep_claim()
            if staged:
                SplitEntry.objects.filter(among("pk", staged)).delete()
            if len(staged) < len(places):
                ended = [at.pk for at in places if at.since != self._next]
                SplitEntry.objects.filter(among("pk", ended)).update(until=self._next)
        self._stretches.update(stretch_of(at.position) for at in places)
        self._served -= sum(not at.is_hidden for at in places)
        give_way()

    def _insert(
        self, rows: Sequence[tuple[int, int, str]], *, is_hidden: bool | None = None
    ) -> None:
        """Add places (position, task, source hash) that start with the next version.

        is_hidden: whether they are hidden; None: those of quarantined tasks are.
        """
        if not rows:
            return
        hidden = {task for _, task, _ in rows} if is_hidden else set[int]()
        if is_hidden is None:
            hidden = {
                task for (task,) in rows_among(_QUARANTINED, [], [task for _, task, _ in rows])
            }
        with transaction.atomic():
            self._keep_claim()
            execute(
                _INSERT,
                [self.split.pk, self._next],
                [(*row, int(row[1] in hidden)) for row in rows],
            )
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
        """Make the next version the current one. Called inside the transaction of `commit`."""
        values = {**self._becomes, "version": self._next, "size": F("size") + self._served}
        if not self._changeable.filter(changing=self._token).update(**values):
            raise SplitBusy(self.split)
        for removals in batched(self._put_back, MAX_DELETED):
            SplitRemoval.objects.filter(among("pk", removals)).delete()

    def _discard(self) -> None:
        """Undo everything that was staged for the next version."""
        _delete(self._entries.filter(since=self._next))
        for batch in _key_batches(self._entries.filter(until=self._next)):
            SplitEntry.objects.filter(among("pk", batch)).update(until=None)
        for removals in batched(self._removals, MAX_DELETED):
            SplitRemoval.objects.filter(among("pk", removals)).delete()

    def _purge(self) -> None:
        """Delete places that ended. Readers of the split work on their own snapshot.

        Those of a split that is sealed for people say which tasks are sealed because they were in
        it.
        """
        version = (
            self._row.filter(is_sealed_for_people=False).values_list("version", flat=True).first()
        )
        if version is not None:
            _delete(self._entries.filter(until__lte=version))


def commit(*changes: SplitChange, also: Callable[[], object] = lambda: None) -> None:
    """Make the staged changes visible together, with what `also` writes, in one short transaction.

    Raises: SplitBusy when a claim was lost; nothing becomes visible then.
    """
    with transaction.atomic():
        # the same order everywhere: no deadlock
        for change in sorted(changes, key=lambda change: change.split.pk):
            change._publish()
        also()
    for change in changes:
        change.is_committed = True


def _is_at(entry: StoredPlace | None, place: SplitPlace) -> bool:
    return entry is not None and (entry.task_id, entry.source_hash) == (
        place.task,
        place.source_hash,
    )


def _key_batches(rows: QuerySet[SplitEntry]) -> Iterator[list[int]]:
    """Yield keys of `rows` in batches until none are left. The caller must make each batch
    disappear from `rows`."""
    while keys := list(rows.values_list("pk", flat=True)[:MAX_DELETED]):
        yield keys


def _delete(rows: QuerySet[SplitEntry]) -> None:
    for keys in _key_batches(rows):
        SplitEntry.objects.filter(among("pk", keys)).delete()
        give_way()
