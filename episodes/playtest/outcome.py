"""Outcome: how a play ended, for the player: its ending, its return, how others did on the task. Reads the record."""

from __future__ import annotations

from typing import Any

from episodes.models import Episode
from episodes.peers import standings


def outcome_of(episode: Episode) -> dict[str, Any]:
    """What `playtest/outcome.html` shows. `episode` has its environment, split, task and play."""
    environment = episode.environment
    definition, threshold = environment.default_return, environment.success_threshold
    returned = getattr(episode, f"return_{definition}")
    return {
        "episode": episode,
        "environment": environment,
        "definition": definition,
        "threshold": threshold,
        "returned": returned,
        "is_success": returned is not None and returned > threshold,
        "standings": standings(episode.task_id, definition, threshold),
        "is_guest": episode.play.guest_id is not None,
    }
