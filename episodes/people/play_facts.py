"""What a player's page and socket read from the record: facts of a play, the task's fields and the
outcome.

Players see no field of the task while they play, because agents see none. After the end they see
all fields except the hidden ones.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from environments.access.privacy import viewer_of
from environments.display import parts
from environments.models import UNRESTRICTED
from environments.scoring.definition import definition_of
from environments.service import hidden_fields
from episodes.models import Episode, Guest, Play
from episodes.people.invites.rule import CLOSED, REVOKED
from episodes.people.player_identity import PlayerSeat
from episodes.people.studies.dealing import GuestDeck, deck_of
from episodes.transcript.cards import message_cards
from episodes.transcript.peers import standings

MAX_SHOWN_CHARACTERS = 4_000
"""Characters of one field that are shown."""
_ENDS = {REVOKED: "Your link has ended", CLOSED: "The study is closed"}
_RELATED = ("environment", "split", "task", "prompt", "tools")


@dataclass(frozen=True, slots=True)
class PlayFacts:
    """A play with its episode and what follows from them. It does not change while the play
    runs."""

    play: Play
    episode: Episode
    """The episode with its environment. Only columns that are set at the start are up to date."""

    @property
    def is_blind(self) -> bool:
        """Return whether rewards have to be hidden now."""
        return self.play.is_blind and self.episode.status == "running"

    @property
    def is_plain(self) -> bool:
        """Return whether the page is the plain view for lay people."""
        return is_plain(self.play)

    @property
    def definition(self) -> str:
        return self.episode.environment.default_return

    @property
    def began(self) -> float:
        """Time of the start in seconds since the epoch."""
        return (self.episode.ready or self.episode.created).timestamp()

    @property
    def base(self) -> str:
        """Address of the player's page; the addresses of its parts start with it."""
        return reverse("player", args=[self.episode.pk])


def is_plain(play: Play) -> bool:
    """Return whether the person gets the plain view: without words of the trade, metadata, raw JSON
    and other people's results. Every guest does."""
    return play.guest_id is not None


def facts_of(pk: int, seat: PlayerSeat) -> PlayFacts | None:
    """Return the facts of the play of episode `pk`; None if `seat` does not play it. One query."""
    rows = Play.objects.select_related(*(f"episode__{name}" for name in _RELATED))
    play = rows.filter(pk=pk).first()
    return PlayFacts(play, play.episode) if play is not None and seat.holds(play) else None


def content_of(episode: Episode) -> dict[str, Any]:
    """Return the context of `people/task_content.html`. `episode` has its environment, task and
    play."""
    if is_plain(episode.play):
        return {}
    hidden_names = hidden_fields(episode.environment.name)
    is_over = episode.status != "running"
    context = {"is_told": is_over, "spec": [], "hidden_count": 0}
    context["is_hosted"] = hidden_names is not None
    is_object = isinstance(json.loads(episode.task.spec), dict)
    if not is_over or hidden_names is None or not is_object:
        return context
    fields = parts.fields(episode.task.spec, MAX_SHOWN_CHARACTERS)
    visible_fields = [field for field in fields if field.label not in hidden_names]
    return context | {
        "spec": message_cards(visible_fields, "spec"),
        "hidden_count": len(fields) - len(visible_fields),
    }


def deck_of_play(play: Play) -> GuestDeck | None:
    """Return the tasks of the guest who plays in a study; None for other plays."""
    if play.guest_id is None:
        return None
    rows = Guest.objects.select_related("invite__study")
    guest = rows.get(pk=play.guest_id)
    return deck_of(guest) if guest.invite.study_id is not None else None


def outcome_of(episode: Episode) -> dict[str, Any]:
    """Return the context of `people/outcome.html`. `episode` has its environment, split, task and
    play."""
    environment = episode.environment
    definition = definition_of(environment)
    return_value = episode.returns[definition.return_]
    viewer = viewer_of(episode.play.user) if episode.play.user is not None else UNRESTRICTED
    others = [] if is_plain(episode.play) else standings(episode.task_id, environment, viewer)
    return {
        "episode": episode,
        "environment": environment,
        "definition": definition.return_,
        "threshold": definition.threshold,
        "returned": return_value,
        "is_success": definition.is_success(return_value),
        "standings": others,
        "is_guest": episode.play.guest_id is not None,
        "is_plain": is_plain(episode.play),
        "once": secrets.token_hex(16),
        "deck": deck_of_play(episode.play),
        "end": _ENDS.get(episode.detail, ""),
    }
