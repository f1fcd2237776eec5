"""Edit: a task's new content. Content is identity, so it is another task, which takes the old one's places."""

from __future__ import annotations

from dataclasses import dataclass

from environments.curation.plan import Outcome, Plan, Progress, silent
from environments.models import Environment, Task


def last_revision(task: Task) -> int:
    """What an editor who looks at `task` now has seen; a form sends it back as `Edit.seen`."""
    raise NotImplementedError


def checked_spec(environment: Environment, text: str) -> str:
    """`text` as it will be stored. Raises: InvalidSpec with every problem found, 20 at most."""
    raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Edit:
    """Give a task new content, in every split that is not frozen. Results stay with the old content.

    `plan` and `apply` also raise InvalidSpec, and Replaced when somebody else edited it since `seen`.
    """

    task: int
    spec: str
    """JSON text."""
    seen: int
    """`last_revision` of the task when the editor opened it."""
    reason: str = ""

    def plan(self) -> Plan:
        raise NotImplementedError

    def apply(self, author: str, progress: Progress = silent) -> Outcome:
        raise NotImplementedError
