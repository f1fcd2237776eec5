"""Work: how an action is carried out, so that what is served changes at one moment and what fails leaves no trace.

First the places are staged in batches, which nobody sees. Then one short transaction makes them visible. Then states
and revisions are written, in batches. For few tasks all of that is one transaction. Until that moment it can be
stopped and nothing has changed; after it, it is finished. If the process dies instead, doing it again does the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Protocol

from django.db import transaction

from environments.changes import BATCH, SplitChange, commit, splits_of
from environments.curation.plan import Progress, silent
from environments.models import Split
from environments.turns import give_way

WAIT_SECONDS = 2.0
"""For a change of the same split that is under way: those of one task end sooner."""


SETTLED = 300
"""Tasks whose states, tags and revisions are written in one transaction."""


class Work(Protocol):
    def stage(self, tasks: Sequence[int]) -> None:
        """Stage what follows for the splits, for at most BATCH tasks."""

    def settle(self, tasks: Sequence[int]) -> int:
        """Write states, tags and revisions of at most SETTLED tasks, in one transaction. Returns how many changed."""


def carry_out(work: Work, tasks: Sequence[int], changes: Sequence[SplitChange], progress: Progress = silent) -> int:
    """Returns how many tasks changed. `changes` are entered. Raises what `progress` raises, before what is served
    changed; where no split is concerned, with a part of the tasks done.
    """
    if len(tasks) <= SETTLED:
        with transaction.atomic():
            work.stage(tasks)
            commit(*staged(changes))
            return work.settle(tasks)
    if not changes:
        return _settle(work, tasks, progress)
    total = 2 * len(tasks)
    for done, batch in _batches(tasks, BATCH):
        work.stage(batch)
        progress(done, total)
    commit(*staged(changes))
    return _settle(work, tasks, _finishing(progress, len(tasks)))


def _settle(work: Work, tasks: Sequence[int], progress: Progress) -> int:
    changed = 0
    for done, batch in _batches(tasks, SETTLED):
        with transaction.atomic():
            changed += work.settle(batch)
        give_way()
        progress(done, len(tasks))
    return changed


def _finishing(progress: Progress, staged: int) -> Progress:
    """Progress of the second half, which cannot be stopped: what is served has changed, and the rest has to follow."""

    def finish(done: int, total: int) -> None:
        with suppress(Exception):
            progress(staged + done, staged + total)

    return finish


@contextmanager
def claimed(tasks: Sequence[int]) -> Iterator[list[SplitChange]]:
    """Changes of all unfrozen splits in which one of the tasks stands. Raises: SplitBusy."""
    with ExitStack() as stack:
        yield [stack.enter_context(change_of(split)) for split in splits_of(tasks)]


def change_of(split: Split) -> SplitChange:
    """Waits a little for those before it; a split that is not served stays so."""
    return SplitChange(split, wait_seconds=WAIT_SECONDS, serves=split.is_served)


def staged(changes: Sequence[SplitChange]) -> list[SplitChange]:
    """Those that have something to commit: a version that rises for nothing makes every reader read again."""
    return [change for change in changes if change.has_staged]


def _batches(tasks: Sequence[int], size: int) -> Iterator[tuple[int, Sequence[int]]]:
    """(how many tasks there are up to its end, the batch) in order."""
    for start in range(0, len(tasks), size):
        batch = tasks[start : start + size]
        yield start + len(batch), batch
