"""Outcome: how a play ended, for the player: its ending, its return, how others did on the task. Reads the record."""

from __future__ import annotations

from typing import Any

from episodes.models import Episode
from episodes.peers import Standing, standings


def outcome_of(episode: Episode) -> dict[str, Any]:
    """What `playtest/outcome.html` shows. `episode` has its environment, split, task and play."""
    environment = episode.environment
    definition, threshold = environment.default_return, environment.success_threshold
    returned = episode.returns[definition]
    return {
        "episode": episode,
        "environment": environment,
        "definition": definition,
        "threshold": threshold,
        "returned": returned,
        "is_success": returned is not None and returned > threshold,
        "standings": _standings(episode.task_id, definition, threshold),
        "is_guest": episode.play.guest_id is not None,
    }


def _standings(task: int, definition: str, threshold: float) -> list[Standing]:
    """Agents first, whose place is there even before one has attempted it."""
    found = standings(task, definition, threshold)
    return found if any(one.player == "agent" for one in found) else [Standing("agent", 0, None, 0), *found]
