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
from django.db.models import F, Max, QuerySet
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
        self._becomes = dict(becomes or {})
        if serves:
            self._becomes["is_served"] = True
        if unfreezes:
            self._becomes |= UNFROZEN
        self._wait_seconds = wait_seconds
        self.is_committed = False
        self.has_staged = False
        """Whether there is anything to commit."""
        self._token = uuid.uuid4().hex
        self._row = Split.objects.filter(pk=split.pk)
        self._changeable = self._row if unfreezes else self._row.filter(frozen=None)
        self._entries = SplitEntry.objects.filter(split=split.pk)
        self._progress, self._insert_count = progress, 0
        self._keeps_ended = False  # places that this change ended stay in the database
        self._new_removals: list[int] = []
        self._old_removals: set[int] = set()  # those that the commit deletes
        self._stretches: set[int] = set()  # the stretches in which something changed
        self._size_change = 0  # of the number of served tasks

    def __enter__(self) -> SplitChange:
        """Claim the split. Raises: FrozenSplit, SplitBusy, SplitGone."""
        was_clean = self._claim()
        self._claim_time = time.monotonic()
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
        own_row = self._row.filter(changing=self._token)
        if self.has_staged and not self.is_committed and own_row.exists():
            self._discard()
        if not (self.was_empty or (self._keeps_ended and self.is_committed)):
            self._purge()
        if self.is_committed:
            renew(self.split.pk, self._next, self._stretches, was_empty=self.was_empty)
        own_row.update(changing="", changing_until=None)

    def add(self, tasks: Iterable[int]) -> int:
        """Append tasks in order, but for those that are already in the split, and return how many
        were added."""
        first = self._end
        for batch in batched(tasks, BATCH):
            there = self._tasks_among(batch)
            new = [task for task in dict.fromkeys(batch) if task not in there]
            self._insert([(position, task, "") for position, task in enumerate(new, self._end)])
            self._end += len(new)
        return self._end - first

    def remove(self, tasks: Iterable[int]) -> int:
        """Remove every place of the tasks and return how many there were. A sync will not add them
        back."""
        count = 0
        for batch in batched(tasks, BATCH):
            places = stored_places(self._open(batch))
            self._forget(places)
            self._finish(places)
            count += len(places)
        return count

    def put_back(self, places: Iterable[FormerPlace]) -> int:
        """Put tasks back at the positions that they had, or at the end where another task is now.

        Tasks that are in the split again keep their places. Returns how many came to the end.
        """
        count = 0
        for batch in batched(places, BATCH):
            there = self._tasks_among({place.task for place in batch})
            old_positions = among("position", [place.position for place in batch])
            positions = set(self._open().filter(old_positions).values_list("position", flat=True))
            rows = list[tuple[int, int, str]]()
            for place in batch:
                if place.task in there:
                    continue
                position = place.position
                if position < 0 or position in positions:
                    position = self._end
                    count += 1
                positions.add(position)
                self._end = max(self._end, position + 1)
                rows.append((position, place.task, place.source_hash))
            self._insert(rows)
            self._remember([content for _, _, content in rows if content])
        return count

    def places(self, tasks: Collection[int]) -> list[FormerPlace]:
        """Return the places of some tasks, in order, as this change has made them so far."""
        rows = self._open(tasks).values_list("position", "task_id", "source_hash")
        return [FormerPlace(*row) for row in rows]

    @property
    def is_empty(self) -> bool:
        """Return whether the split has no place, as this change has made it so far."""
        return not self._open().exists()

    def replace(self, tasks: Mapping[int, int]) -> int:
        """Put each value of `tasks` in the places of its key and return how many there were. Where
        the value is in the split already, the key is removed."""
        count = 0
        for batch in batched(tasks.items(), BATCH):
            news = dict(batch)
            places = stored_places(self._open(news.keys()))
            # new task -> the one task whose places it takes
            heirs = {task: task for task in self._tasks_among(news.values()) - news.keys()}
            heir_places, spare_places = list[StoredPlace](), list[StoredPlace]()
            for at in places:
                is_heir = heirs.setdefault(news[at.task_id], at.task_id) == at.task_id
                (heir_places if is_heir else spare_places).append(at)
            self._forget(spare_places)
            self._finish(places)
            self._insert([(at.position, news[at.task_id], at.source_hash) for at in heir_places])
            count += len(places)
        return count

    def end(self) -> None:
        """Remove all places, and leave them in the database for `revive`."""
        self.has_staged = self._keeps_ended = True
        last = -1
        while places := stored_places(
            self._open().filter(position__gt=last).order_by("position")[:BATCH]
        ):
            last = places[-1].position
            self._finish(places)

    def revive(self) -> int:
        """Put back the places that `end` removed with the present version of the split. Return
        their number."""
        old = self._entries.filter(until=self.split.version).order_by("position")
        last, count = -1, 0
        while places := stored_places(old.filter(position__gt=last)[:BATCH]):
            last = places[-1].position
            self._insert([(at.position, at.task_id, at.source_hash) for at in places])
            count += len(places)
        return count

    def hold(self) -> None:
        """Keep the claim while nothing is written. Call it more often than every CLAIM_SECONDS /
        2."""
        if time.monotonic() > self._claim_time + CLAIM_SECONDS / 4:
            self._keep_claim()

    def refresh(self, tasks: Iterable[int]) -> int:
        """Hide the places of quarantined tasks, show those of other tasks, and return how many
        places changed."""
        count = 0
        for batch in batched(tasks, BATCH):
            quarantine = _quarantine_among(batch)
            count += self.set_hidden(quarantine, is_hidden=True)
            count += self.set_hidden(set(batch) - quarantine, is_hidden=False)
        return count

    def set_hidden(self, tasks: Iterable[int], *, is_hidden: bool) -> int:
        """Stop serving tasks, or serve them again, at their places and whatever their state is.
        Return how many places changed."""
        count = 0
        for batch in batched(tasks, BATCH):
            places = stored_places(self._open(batch).exclude(is_hidden=is_hidden))
            self._finish(places)
            rows = [(at.position, at.task_id, at.source_hash) for at in places]
            self._insert(rows, is_hidden=is_hidden)
            count += len(places)
        return count

    def write(self, **columns: object) -> None:
        """Write columns of the split immediately, without waiting for the commit."""
        if not self._row.filter(changing=self._token).update(**columns):
            raise SplitBusy(self.split)

    def place(self, order: Sequence[SplitPlace]) -> None:
        """Make `order` the whole content of the split. Places that are already right are left
        alone."""
        size = rows_at_once(BATCH)
        for start in range(0, len(order), size):
            stop = min(start + size, len(order))
            now = self._open().filter(position__gte=start, position__lt=stop)
            places = stored_places(now) if start < self._end else []
            right = {
                at.position
                for at in places
                if (at.task_id, at.source_hash)
                == (order[at.position].task, order[at.position].source_hash)
            }
            self._finish([at for at in places if at.position not in right])
            wrong = [n for n in range(start, stop) if n not in right]
            self._insert([(n, order[n].task, order[n].source_hash) for n in wrong])
        tail = self._open().filter(position__gte=len(order)).order_by("-position")
        while self._end > len(order) and (places := stored_places(tail[:BATCH])):
            self._finish(places)
        self._end = max(self._end, len(order))

    def _claim(self) -> bool:
        """Claim the split and return whether the previous change left nothing to clean up."""
        until = time.monotonic() + self._wait_seconds
        while True:
            now = timezone.now()
            claim = {"changing": self._token, "changing_until": now + _CLAIM}
            if self._changeable.filter(changing="").update(**claim):
                return True
            if self._changeable.filter(changing_until__lt=now).update(**claim):
                return False
            row = self._row.select_related("environment").first()
            if row is None:
                raise SplitGone(self.split)
            if not self._changeable.exists():
                raise FrozenSplit(row)
            if time.monotonic() > until:
                raise SplitBusy(row)
            time.sleep(RETRY_SECONDS)

    def _open(self, tasks: Collection[int] | None = None) -> QuerySet[SplitEntry]:
        """Return the places of the split as this change has made them so far, or only those of
        `tasks`."""
        if tasks is None:
            return self._entries.filter(until=None)
        # `of` hides the column from SQLite's planner, which would otherwise scan the whole split to
        # find a few tasks.
        entries = SplitEntry.objects.alias(of=F("split") + 0).filter(
            among("task_id", tasks), of=self.split.pk, until=None
        )
        return entries.order_by("position")

    def _tasks_among(self, tasks: Collection[int]) -> set[int]:
        """Return those of `tasks` that have a place now."""
        return set(self._open(tasks).values_list("task_id", flat=True))

    def _forget(self, places: Sequence[StoredPlace]) -> None:
        """Record that a sync must not add these places back, although the class lists them."""
        rows = [
            SplitRemoval(split=self.split, source_hash=at.source_hash)
            for at in places
            if at.source_hash
        ]
        self._new_removals += [row.pk for row in SplitRemoval.objects.bulk_create(rows)]

    def _remember(self, hashes: Sequence[str]) -> None:
        """Let the commit forget one removal of each hash, because its task is back."""
        if not hashes:
            return
        counts = Counter(hashes)
        rows = SplitRemoval.objects.filter(among("source_hash", counts), split=self.split)
        for pk, content in rows.values_list("pk", "source_hash"):
            if counts[content] and pk not in self._old_removals:
                counts[content] -= 1
                self._old_removals.add(pk)

    def _finish(self, places: Sequence[StoredPlace]) -> None:
        """End these places with the next version, and delete those that would only have started
        with it."""
        if not places:
            return
        new = [at.pk for at in places if at.since == self._next]
        old = [at.pk for at in places if at.since != self._next]
        with transaction.atomic():
            self._keep_claim()
            if new:
                SplitEntry.objects.filter(among("pk", new)).delete()
            if old:
                SplitEntry.objects.filter(among("pk", old)).update(until=self._next)
        self._stretches.update(stretch_of(at.position) for at in places)
        self._size_change -= sum(not at.is_hidden for at in places)
        give_way()

    def _insert(
        self, rows: Sequence[tuple[int, int, str]], *, is_hidden: bool | None = None
    ) -> None:
        """Add places (position, task, source hash) that start with the next version.

        is_hidden: whether they are hidden; None: those of quarantined tasks are.
        """
        if not rows:
            return
        tasks = [task for _, task, _ in rows]
        hidden_tasks = set(tasks) if is_hidden else set[int]()
        if is_hidden is None:
            hidden_tasks = _quarantine_among(tasks)
        with transaction.atomic():
            self._keep_claim()
            values = [(*row, int(row[1] in hidden_tasks)) for row in rows]
            execute(_INSERT, [self.split.pk, self._next], values)
        self._stretches.update(stretch_of(position) for position, _, _ in rows)
        self._size_change += sum(task not in hidden_tasks for task in tasks)
        self._insert_count += len(rows)
        give_way()
        if self._progress:
            self._progress(self._insert_count)

    def _keep_claim(self) -> None:
        self.has_staged = True
        self._claim_time = time.monotonic()
        self.write(changing_until=timezone.now() + _CLAIM)

    def _publish(self) -> None:
        """Make the next version the current one. Called inside the transaction of `commit`."""
        values = {**self._becomes, "version": self._next, "size": F("size") + self._size_change}
        if not self._changeable.filter(changing=self._token).update(**values):
            raise SplitBusy(self.split)
        _delete_removals(self._old_removals)

    def _discard(self) -> None:
        """Undo everything that was staged for the next version."""
        _delete(self._entries.filter(since=self._next))
        for batch in _key_batches(self._entries.filter(until=self._next)):
            SplitEntry.objects.filter(among("pk", batch)).update(until=None)
        _delete_removals(self._new_removals)

    def _purge(self) -> None:
        """Delete places that ended. Readers of the split work on their own snapshot.

        Those of a split that is sealed for people stay: they say which tasks are sealed.
        """
        rows = self._row.filter(is_sealed_for_people=False)
        version = rows.values_list("version", flat=True).first()
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


def _quarantine_among(tasks: Collection[int]) -> set[int]:
    """Return those of `tasks` that are quarantined."""
    return {task for (task,) in rows_among(_QUARANTINED, [], tasks)}


def _delete_removals(keys: Iterable[int]) -> None:
    for batch in batched(keys, MAX_DELETED):
        SplitRemoval.objects.filter(among("pk", batch)).delete()


def _key_batches(rows: QuerySet[SplitEntry]) -> Iterator[list[int]]:
    """Yield keys of `rows` in batches until none are left. The caller must make each batch
    disappear from `rows`."""
    while keys := list(rows.values_list("pk", flat=True)[:MAX_DELETED]):
        yield keys


def _delete(rows: QuerySet[SplitEntry]) -> None:
    for keys in _key_batches(rows):
        SplitEntry.objects.filter(among("pk", keys)).delete()
        give_way()
