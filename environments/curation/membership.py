"""CopyToSplit, MoveToSplit and SaveAsSplit: which splits tasks stand in."""

from __future__ import annotations

from dataclasses import dataclass

from environments.curation.plan import Outcome, Plan, Progress, silent
from environments.curation.selection import Selection


@dataclass(frozen=True, slots=True)
class CopyToSplit:
    """Put tasks at the end of a split; those that stand in it already stay where they are."""

    selection: Selection
    split: int
    reason: str = ""

    def plan(self) -> Plan:
        raise NotImplementedError

    def apply(self, author: str, progress: Progress = silent) -> Outcome:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class MoveToSplit:
    """Take tasks out of one split and put them at the end of another, at the same moment."""

    selection: Selection
    """Only its tasks that stand in `source` are moved."""
    source: int
    split: int
    reason: str = ""

    def plan(self) -> Plan:
        raise NotImplementedError

    def apply(self, author: str, progress: Progress = silent) -> Outcome:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class SaveAsSplit:
    """Make a curated split of the selected tasks. `selection.environment` has to be given."""

    selection: Selection
    name: str
    """1 to 200 characters, not taken, without slashes and control characters."""
    type: str
    """train, validation or test."""
    reason: str = ""

    def plan(self) -> Plan:
        raise NotImplementedError

    def apply(self, author: str, progress: Progress = silent) -> Outcome:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class RemoveFromSplit:
    """Take tasks out of a split."""

    selection: Selection
    split: int
    reason: str = ""

    def plan(self) -> Plan:
        raise NotImplementedError

    def apply(self, author: str, progress: Progress = silent) -> Outcome:
        raise NotImplementedError
