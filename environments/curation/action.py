"""Work: how an action is carried out, so that what is served changes at one moment and what fails leaves no trace.

First the places are staged in batches, which nobody sees. Then one short transaction makes them visible. Then states
and revisions are written, in batches. For few tasks all of that is one transaction. Until that moment it can be
stopped and nothing has changed; after it, it is finished. If the process dies instead, doing it again does the rest.

Why a change is refused. The text of each is a sentence for the person who asked, naming the value and the fix.

Plan and Outcome: what an action will touch, and what it did. Shown by pages and printed by commands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

from django.db import transaction

from environments.database.jobs import Progress, silent
from environments.database.write_turns import give_way
from environments.errors import OrsError
from environments.models import Split, TaskRevision
from environments.tasks.split_change import BATCH, SplitChange, commit, splits_of


class ActionRefused(OrsError):
    """The change cannot be made as asked; nothing was changed."""


@dataclass(frozen=True, slots=True)
class ActionProblem:
    """One thing that is wrong with a spec."""

    path: str
    """Where: names and indexes joined by dots, as in `grid.0.size`; empty: the whole of it."""
    message: str


class InvalidSpec(ActionRefused):
    """A spec that is no strict JSON object, or that the environment's task schema refuses."""

    def __init__(self, problems: tuple[ActionProblem, ...]) -> None:
        shown = "; ".join(
            f"{problem.path}: {problem.message}" if problem.path else problem.message for problem in problems
        )
        super().__init__(f"The spec is refused: {shown}.")
        self.problems = problems


class Replaced(ActionRefused):
    """Somebody else gave the task a new content since this editor looked; theirs is in `revision`."""

    def __init__(self, revision: TaskRevision) -> None:
        super().__init__(
            f"{revision.author} changed this task at {revision.created:%Y-%m-%d %H:%M} UTC, while you were editing it. "
            "Look at the difference, then edit the new one."
        )
        self.revision = revision


@dataclass(frozen=True, slots=True)
class SplitShare:
    """One split and how many of the selected tasks stand in it."""

    split: int
    name: str
    tasks: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What an action will touch, counted when it was asked; the action itself goes by what is there when it runs."""

    title: str
    """What will be done, as "Quarantine 120 tasks"."""
    selected: int
    """Tasks that were chosen."""
    changing: int
    """Those of them that will be changed; the rest is as wanted already."""
    splits: tuple[SplitShare, ...] = ()
    """Splits whose served content will change."""
    frozen: tuple[SplitShare, ...] = ()
    """Frozen splits in which the tasks stand: they stay as they are."""
    sentences: tuple[str, ...] = ()
    """All of the above and whatever else one should know, one sentence each."""


@dataclass(frozen=True, slots=True)
class ActionOutcome:
    """What an action did."""

    sentence: str
    changed: int
    """Tasks that were changed."""
    change: str = ""
    """Shared by the revisions it left behind (TaskRevision.change); empty: none."""
    split: int | None = None
    """The split that was made or filled."""
    task: int | None = None
    """The task that stands where an edited or restored one stood."""


class Action(Protocol):
    """One change that people make."""

    def plan(self) -> Plan:
        """What `apply` will touch. Raises: Refused."""

    def apply(self, author: str, progress: Progress = silent) -> ActionOutcome:
        """Do it. Everything becomes visible at once; if it fails or `progress` raises, what is served is as before,
        and doing it again finishes it. Raises: Refused, and FrozenSplit or SplitBusy of `environments.tasks.split_change`.
        """


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
        for change in changes:
            change.hold()
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
