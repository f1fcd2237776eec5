"""The state that the checks of one environment share. Each group of checks stores here what later
groups need."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from environments.checking.checked_environment import CallAnswer, CheckedEnvironment, Sample
from environments.checking.local import LocalEnvironment
from environments.checking.report import CheckReport
from environments.errors import shorten
from environments.processes import with_descendants

ADVICE = "Define oracle(), or write examples into the schemas."
"""What lets the checks make calls that are accepted."""


@dataclass(frozen=True, slots=True)
class CheckOptions:
    episodes: int = 5
    """Number of episodes that are played with generated inputs."""
    steps: int = 30
    """Maximum number of tool calls in one episode."""
    seed: int = 0
    """The same seed plays the same tasks with the same inputs."""
    timeout_seconds: float = 10.0
    """Time limit of each step."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    note_step: Callable[[str], object] | None = None
    """Called with each step before it begins."""
    exits_when_stuck: bool = False
    """Whether the process may end itself when the environment's code lets no other thread run."""


@dataclass(frozen=True, slots=True)
class PlayedMove:
    """One tool call and its result."""

    tool: str
    arguments: dict[str, Any]
    answer: CallAnswer


@dataclass(frozen=True, slots=True)
class PlayedEpisode:
    """One episode as the list of its tool calls."""

    sample: Sample
    moves: list[PlayedMove]

    @property
    def is_finished(self) -> bool:
        return any(move.answer.is_finished for move in self.moves)

    @property
    def accepted(self) -> list[PlayedMove]:
        """The calls that were neither refused nor failed."""
        return [move for move in self.moves if move.answer.status == "ok"]

    @property
    def rewards(self) -> list[float]:
        return [move.answer.reward for move in self.moves if move.answer.reward is not None]


@dataclass
class CheckState:
    environment: CheckedEnvironment
    report: CheckReport
    options: CheckOptions
    local: LocalEnvironment | None = None
    """The same object as `checked` when the class is in this process, otherwise None."""
    specification: str = ""
    """`module:Class`, from which fresh processes import the class; empty for a server."""
    splits: list[str] = field(default_factory=list)
    tools: list[Any] = field(default_factory=list)
    """The tools that the environment lists without a session, the terminal tool among them."""
    listings: dict[str, list[Any] | None] = field(default_factory=dict)
    """Split -> its tasks, or None if the environment only returns tasks by index."""
    samples: list[Sample] = field(default_factory=list)
    """Tasks that are played; those whose sessions do not open are removed."""
    episodes: list[PlayedEpisode] = field(default_factory=list)
    scripts: list[PlayedEpisode] = field(default_factory=list)
    """Up to two of them, shortened, that can be played again."""
    endings: set[str] = field(default_factory=set)
    """Names of the tools that ended an episode so far."""
    processes: frozenset[int] = field(
        default_factory=lambda: frozenset(with_descendants(os.getpid()))
    )
    """This process and those that it had started before the first session."""
    is_repeatable: bool = True
    """Whether the same calls had the same results in a second session, as far as that was tried."""

    @property
    def refusal(self) -> str:
        """Why nothing can be said about what calls do: all were refused, or none was made. Empty if
        one ran."""
        if any(episode.accepted for episode in self.episodes):
            return ""
        moves = [
            move
            for episode in self.episodes
            for move in episode.moves
            if move.answer.status == "refused"
        ]
        if not moves:
            return "No call was made."
        first = (
            f"{moves[0].tool} {shorten(canonical(moves[0].arguments), 120)}: "
            f"{moves[0].answer.error}"
        )
        return f"All {len(moves)} calls were refused, such as {first} {ADVICE}"

    def random(self, purpose: str) -> Random:
        """Return a generator for one purpose, so that a new check does not change the inputs of the
        others."""
        return Random(f"{self.options.seed}/{purpose}")


def same(first: Any, second: Any) -> bool:
    """Return whether two parsed JSON values are the same; 1, 1.0 and true are three different
    values."""
    return canonical(first) == canonical(second)


def same_answer(first: CallAnswer, second: CallAnswer) -> bool:
    return (first.status, first.error) == (second.status, second.error) and same(
        first.output, second.output
    )


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
