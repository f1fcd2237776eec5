"""AddTags and RemoveTags: words that people put on tasks."""

from __future__ import annotations

from dataclasses import dataclass

from environments.curation.plan import Outcome, Plan, Progress, silent
from environments.curation.selection import Selection


@dataclass(frozen=True, slots=True)
class AddTags:
    selection: Selection
    tags: tuple[str, ...]
    """Words of 60 characters at most, without commas and control characters."""
    reason: str = ""

    def plan(self) -> Plan:
        raise NotImplementedError

    def apply(self, author: str, progress: Progress = silent) -> Outcome:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class RemoveTags:
    selection: Selection
    tags: tuple[str, ...]
    reason: str = ""

    def plan(self) -> Plan:
        raise NotImplementedError

    def apply(self, author: str, progress: Progress = silent) -> Outcome:
        raise NotImplementedError
