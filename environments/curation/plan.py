"""Plan and Outcome: what an action will touch, and what it did. Shown by pages and printed by commands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

Progress = Callable[[int, int], None]
"""Told (done, total) now and then, in units of the action's own; what it raises stops the action."""


def silent(done: int, total: int) -> None:
    """The Progress of an action that nobody watches."""


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
class Outcome:
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

    def apply(self, author: str, progress: Progress = silent) -> Outcome:
        """Do it. Everything becomes visible at once; if it fails or `progress` raises, what is served is as before,
        and doing it again finishes it. Raises: Refused, and FrozenSplit or SplitBusy of `environments.changes`.
        """
