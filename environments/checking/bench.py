"""Bench: what the checks of one environment share. Each group leaves here what later ones build on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from environments.checking.door import CallAnswer, Door, Sample
from environments.checking.local import LocalDoor
from environments.checking.report import CheckReport


@dataclass(frozen=True, slots=True)
class CheckOptions:
    episodes: int = 5
    """Played with generated inputs."""
    steps: int = 30
    """Most calls of one episode."""
    seed: int = 0
    """The same seed plays the same tasks with the same inputs."""
    timeout_seconds: float = 10.0
    """Each step may take so long."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    exits_when_stuck: bool = False
    """Whether the process may end itself when code of the environment's lets no other thread run."""


@dataclass(frozen=True, slots=True)
class PlayedMove:
    """One tool call and what came of it."""

    tool: str
    arguments: dict[str, Any]
    answer: CallAnswer


@dataclass(frozen=True, slots=True)
class PlayedEpisode:
    """One episode, move by move."""

    sample: Sample
    moves: list[PlayedMove]

    @property
    def is_finished(self) -> bool:
        return any(move.answer.is_finished for move in self.moves)

    @property
    def rewards(self) -> list[float]:
        return [move.answer.reward for move in self.moves if move.answer.reward is not None]


@dataclass
class Bench:
    door: Door
    report: CheckReport
    options: CheckOptions
    local: LocalDoor | None = None
    """The door again, where the class is in this process."""
    specification: str = ""
    """module:Class, for fresh processes."""
    splits: list[str] = field(default_factory=list)
    listings: dict[str, list[Any] | None] = field(default_factory=dict)
    """Split -> its tasks; None: the environment is asked for each."""
    samples: list[Sample] = field(default_factory=list)
    """Tasks whose sessions open."""
    episodes: list[PlayedEpisode] = field(default_factory=list)
    endings: set[str] = field(default_factory=set)
    """Tools that were seen to end an episode."""

    def random(self, purpose: str) -> Random:
        """A generator of its own for each purpose, so that one check more does not change another's inputs."""
        return Random(f"{self.options.seed}/{purpose}")


def same(one: Any, other: Any) -> bool:
    """Whether two parsed JSON values are the same; 1, 1.0 and true are not."""
    return canonical(one) == canonical(other)


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
