"""The base class of curation actions, with their refusals, plans and outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from environments.database.background_jobs import Progress, silent
from environments.errors import OrsError
from environments.models import TaskRevision

MAX_TOGETHER = 300
"""Number of tasks that are changed in one transaction."""


class ActionRefused(OrsError):
    """The change cannot be made, and nothing was changed. Its text is a sentence that says why and
    what to do."""


@dataclass(frozen=True, slots=True)
class ActionProblem:
    """One thing that is wrong with a spec."""

    path: str
    """Names and indexes joined by dots, as in `grid.0.size`; empty: the whole spec."""
    message: str


class InvalidSpec(ActionRefused):
    """The spec is no strict JSON object, or the environment's task schema refuses it."""

    def __init__(self, problems: tuple[ActionProblem, ...]) -> None:
        sentence = "; ".join(
            f"{problem.path}: {problem.message}" if problem.path else problem.message
            for problem in problems
        )
        super().__init__(f"This spec cannot be saved: {sentence}.")
        self.problems = problems


class Replaced(ActionRefused):
    """Somebody else edited the task since this editor opened it; `revision` holds their edit."""

    def __init__(self, revision: TaskRevision) -> None:
        super().__init__(
            f"{revision.author} changed this task at {revision.created:%Y-%m-%d %H:%M} UTC, while "
            "you were editing it. "
            "Look at the difference, then edit their version."
        )
        self.revision = revision


@dataclass(frozen=True, slots=True)
class SplitShare:
    """A split and the number of selected tasks in it."""

    split: int
    name: str
    tasks: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What an action will touch, counted when it was planned; `apply` uses the tasks that match
    when it runs."""

    title: str
    """What will be done, such as "Quarantine 120 tasks"."""
    selected: int
    """Number of tasks that were selected."""
    changing: int
    """Number of chosen tasks that will be changed; the others are already as wanted."""
    splits: tuple[SplitShare, ...] = ()
    """Splits whose served content will change."""
    frozen: tuple[SplitShare, ...] = ()
    """Frozen splits that hold some of the tasks; they stay as they are."""
    sentences: tuple[str, ...] = ()
    """What to know before applying it, such as what changes in each split, one sentence each."""

    named: tuple[int, ...] = ()
    """Ids of the first tasks that will be changed, for pages to name them."""

    @property
    def is_in_parts(self) -> bool:
        """Return whether pages show parts of it for some seconds, because it is too large for one
        transaction."""
        return self.changing > MAX_TOGETHER


@dataclass(frozen=True, slots=True)
class ActionOutcome:
    """The effects of an action that was applied."""

    sentence: str
    changed: int
    """Number of tasks that were changed."""
    change: str = ""
    """Token of the action (CurationAction), which its revisions share; empty: nothing was
    changed."""
    split: int | None = None
    """The split that was made or filled."""
    task: int | None = None
    """The task that took the place of an edited or restored one."""


class Action(Protocol):
    """One change that people make."""

    def plan(self) -> Plan:
        """Return what `apply` will change. Raises: ActionRefused."""

    def apply(self, author: str, progress: Progress = silent) -> ActionOutcome:
        """Make the change, which becomes visible all at once.

        If it fails or `progress` raises, nothing has changed.
        Raises: ActionRefused, and FrozenSplit or SplitBusy of `environments.tasks.split_change`.
        """
