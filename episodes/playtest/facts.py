"""Facts: what of a play does not change while it is played. Read where a page or a socket is let in."""

from __future__ import annotations

from dataclasses import dataclass

from episodes.models import Episode, Play
from episodes.playtest.seat import Seat

_RELATED = ("environment", "split", "task", "prompt", "tools")
BIGGEST_ID = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Facts:
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


def facts_of(pk: int, seat: Seat) -> Facts | None:
    """Of the play of episode `pk`; None: there is none that `seat` holds. One query."""
    if pk > BIGGEST_ID:
        return None
    related = Play.objects.select_related(*(f"episode__{name}" for name in _RELATED))
    play = related.filter(pk=pk).first()
    return Facts(play, play.episode) if play is not None and seat.holds(play) else None
