"""Quarantine and Release: whether tasks are served. A quarantined task keeps its places, hidden."""

from __future__ import annotations

from dataclasses import dataclass

from environments.curation.plan import Outcome, Plan, Progress, silent
from environments.curation.selection import Selection


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Stop serving tasks, in every split that is not frozen."""

    selection: Selection
    reason: str
    """Must not be empty: it is shown wherever the task is."""

    def plan(self) -> Plan:
        raise NotImplementedError

    def apply(self, author: str, progress: Progress = silent) -> Outcome:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Release:
    """Serve quarantined tasks again, at the places they kept."""

    selection: Selection
    reason: str = ""

    def plan(self) -> Plan:
        raise NotImplementedError

    def apply(self, author: str, progress: Progress = silent) -> Outcome:
        raise NotImplementedError
