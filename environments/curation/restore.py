"""Restore: puts back how a task was before one of its revisions."""

from __future__ import annotations

from dataclasses import dataclass

from environments.curation.plan import Outcome, Plan, Progress, silent


@dataclass(frozen=True, slots=True)
class Restore:
    """Put back the `before` of a revision: content, state, tags or splits, whichever it changed.

    Of an edit: the old content takes the places of what stands there now, however often that was edited since.
    """

    revision: int
    reason: str = ""

    def plan(self) -> Plan:
        raise NotImplementedError

    def apply(self, author: str, progress: Progress = silent) -> Outcome:
        raise NotImplementedError
