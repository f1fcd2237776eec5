"""The live plays of this process by session, for the socket and the views that start or continue
plays.

Used on the service's event loop only. A play is listed from its start to its end.
"""

from __future__ import annotations

from environments.runtime.service import SessionService
from environments.runtime.session_request import SessionRequest
from episodes.people.live_play import LivePlay
from episodes.people.play_clock import PlayTimes


class LivePlays:
    """Live plays of one open service."""

    def __init__(self, service: SessionService) -> None:
        self.service = service
        self._plays: dict[str, LivePlay] = {}

    def open(self, request: SessionRequest, times: PlayTimes | None = None) -> LivePlay:
        """Start a play with a new `request.sid`. Its `start_task` is done when the session is ready
        or has failed.

        `times`: those of its study, if it belongs to one.
        """
        play = LivePlay(self.service, request, self._forget, times)
        self._plays[request.sid] = play
        return play

    def find(self, sid: str, owner: str) -> LivePlay | None:
        """Return the live play of that session and owner; None if there is none."""
        play = self._plays.get(sid)
        return play if play is not None and play.owner == owner else None

    def _forget(self, play: LivePlay) -> None:
        self._plays.pop(play.sid, None)


_live_plays: LivePlays | None = None


def live_plays_of(service: SessionService) -> LivePlays:
    """Return the live plays of `service`. A process has one open service at a time."""
    global _live_plays
    if _live_plays is None or _live_plays.service is not service:
        _live_plays = LivePlays(service)
    return _live_plays
