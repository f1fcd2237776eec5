"""Work: how an action is carried out, so that what is served changes at one moment and what fails leaves no trace.

First the places are staged in batches, which nobody sees. Then one short transaction makes them visible. Then states
and revisions are written, in batches. Up to one batch, all of that is one transaction. Until that moment it can be
stopped and nothing has changed; after it, it is finished. If the process dies instead, doing it again does the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Protocol

from django.db import transaction

from environments.changes import BATCH, SplitChange, commit, splits_of
from environments.curation.plan import Progress, silent
from environments.models import Split

WAIT_SECONDS = 2.0
"""For a change of the same split that is under way: those of one task end sooner."""


class Work(Protocol):
    def stage(self, tasks: Sequence[int]) -> None:
        """Stage what follows for the splits, for at most BATCH tasks."""

    def settle(self, tasks: Sequence[int]) -> int:
        """Write states, tags and revisions of at most BATCH tasks, in one transaction. Returns how many changed."""


def carry_out(work: Work, tasks: Sequence[int], changes: Sequence[SplitChange], progress: Progress = silent) -> int:
    """Returns how many tasks changed. `changes` are entered. Raises what `progress` raises, before anything changed."""
    if len(tasks) <= BATCH:
        with transaction.atomic():
            work.stage(tasks)
            commit(*staged(changes))
            return work.settle(tasks)
    done, total = 0, 2 * len(tasks)
    for batch in batches(tasks):
        work.stage(batch)
        done += len(batch)
        progress(done, total)
    commit(*staged(changes))
    return _settle(work, tasks, progress)


def _settle(work: Work, tasks: Sequence[int], progress: Progress) -> int:
    changed, done = 0, len(tasks)
    for batch in batches(tasks):
        with transaction.atomic():
            changed += work.settle(batch)
        done += len(batch)
        try:
            progress(done, 2 * len(tasks))
        except Exception:  # too late to stop: what is served has changed already, and the rest has to follow
            progress = silent
    return changed


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


def batches(tasks: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(tasks), BATCH):
        yield tasks[start : start + BATCH]
