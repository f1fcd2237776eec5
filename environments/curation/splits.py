"""FreezeSplit, UnfreezeSplit and DeleteSplit: what becomes of a split as a whole."""

from __future__ import annotations

from dataclasses import dataclass

from environments.curation.plan import Outcome, Plan, Progress, silent


@dataclass(frozen=True, slots=True)
class FreezeSplit:
    """Content and order can no longer change; `Split.frozen_hash` tells them apart from any other."""

    split: int

    def plan(self) -> Plan:
        raise NotImplementedError

    def apply(self, author: str, progress: Progress = silent) -> Outcome:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class UnfreezeSplit:
    split: int

    def plan(self) -> Plan:
        raise NotImplementedError

    def apply(self, author: str, progress: Progress = silent) -> Outcome:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class DeleteSplit:
    """Delete a curated split. Its tasks stay, and so do sessions that are being played."""

    split: int
    reason: str = ""

    def plan(self) -> Plan:
        raise NotImplementedError

    def apply(self, author: str, progress: Progress = silent) -> Outcome:
        raise NotImplementedError
