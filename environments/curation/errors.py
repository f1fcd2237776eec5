"""Why a change is refused. The text of each is a sentence for the person who asked, naming the value and the fix."""

from __future__ import annotations

from dataclasses import dataclass

from environments.errors import OrsError
from environments.models import TaskRevision


class Refused(OrsError):
    """The change cannot be made as asked; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a spec."""

    path: str
    """Where: names and indexes joined by dots, as in `grid.0.size`; empty: the whole of it."""
    message: str


class InvalidSpec(Refused):
    """A spec that is no strict JSON object, or that the environment's task schema refuses."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        shown = "; ".join(
            f"{problem.path}: {problem.message}" if problem.path else problem.message for problem in problems
        )
        super().__init__(f"The spec is refused: {shown}.")
        self.problems = problems


class Replaced(Refused):
    """Somebody else gave the task a new content since this editor looked; theirs is in `revision`."""

    def __init__(self, revision: TaskRevision) -> None:
        super().__init__(
            f"{revision.author} changed this task at {revision.created:%Y-%m-%d %H:%M} UTC, while you were editing it. "
            "Look at the difference, then edit the new one."
        )
        self.revision = revision
