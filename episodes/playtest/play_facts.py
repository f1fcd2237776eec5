"""Facts: what of a play does not change while it is played. Read where a page or a socket is let in.

Content: what a player is told of the task's fields: none while they play, as agents get none, and all but the hidden
ones when it has ended. Reads the record.

Outcome: how a play ended, for the player: its ending, its return, how others did on the task. Reads the record.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from environments.display import parts
from environments.service import hidden_fields
from episodes.models import Episode, Play
from episodes.playtest.seat import PlayerSeat
from episodes.transcript.cards import said
from episodes.transcript.peers import PeerStanding, standings

SHOWN_CHARACTERS = 4_000
"""Of one field."""


def content_of(episode: Episode) -> dict[str, Any]:
    """What `playtest/task_content.html` shows. `episode` has its environment and task."""
    hidden = hidden_fields(episode.environment.name)
    told = {"is_told": episode.status != "running", "spec": [], "hidden_count": 0, "is_hosted": hidden is not None}
    if not told["is_told"] or hidden is None or not isinstance(json.loads(episode.task.spec), dict):
        return told
    fields = parts.fields(episode.task.spec, SHOWN_CHARACTERS)
    shown = [one for one in fields if one.label not in hidden]
    return told | {"spec": said(shown, "spec"), "hidden_count": len(fields) - len(shown)}


_RELATED = ("environment", "split", "task", "prompt", "tools")
BIGGEST_ID = 2**63 - 1


@dataclass(frozen=True, slots=True)
class PlayFacts:
    play: Play
    episode: Episode
    """With its environment. Of its own columns only those of the beginning are to be read."""

    @property
    def is_blind(self) -> bool:
        """Whether rewards are still to be hidden."""
        return self.play.is_blind and self.episode.status == "running"

    @property
    def definition(self) -> str:
        return self.episode.environment.default_return

    @property
    def began(self) -> float:
        """Seconds since the epoch."""
        return (self.episode.ready or self.episode.created).timestamp()

    @property
    def base(self) -> str:
        """Below it stand the addresses that its page asks."""
        return f"/play/{self.episode.pk}/"


def facts_of(pk: int, seat: PlayerSeat) -> PlayFacts | None:
    """Of the play of episode `pk`; None: there is none that `seat` holds. One query."""
    if pk > BIGGEST_ID:
        return None
    related = Play.objects.select_related(*(f"episode__{name}" for name in _RELATED))
    play = related.filter(pk=pk).first()
    return PlayFacts(play, play.episode) if play is not None and seat.holds(play) else None


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


def _standings(task: int, definition: str, threshold: float) -> list[PeerStanding]:
    """Agents first, whose place is there even before one has attempted it."""
    found = standings(task, definition, threshold)
    return found if any(one.player == "agent" for one in found) else [PeerStanding("agent", 0, None, 0), *found]
