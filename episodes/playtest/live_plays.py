"""Tables: the live plays of this process, by session. The socket and the opening come here for theirs.

On the service's event loop only. A play stands here from its opening to its end.
"""

from __future__ import annotations

from environments.runtime.live_episode import NewSession
from environments.runtime.service import SessionService
from episodes.playtest.live_play import LivePlay


class Tables:
    def __init__(self, service: SessionService) -> None:
        self.service = service
        self._plays: dict[str, LivePlay] = {}

    def open(self, request: NewSession) -> LivePlay:
        """A new play; its `beginning` tells when the session is ready or has failed. `request.sid` is fresh."""
        play = LivePlay(self.service, request, self._forget)
        self._plays[request.sid] = play
        return play

    def find(self, sid: str, owner: str) -> LivePlay | None:
        """The play of that session, while it lives."""
        play = self._plays.get(sid)
        return play if play is not None and play.owner == owner else None

    def _forget(self, play: LivePlay) -> None:
        self._plays.pop(play.sid, None)


_tables: Tables | None = None


def tables_of(service: SessionService) -> Tables:
    """Of the service that is open: a process has one at a time."""
    global _tables
    if _tables is None or _tables.service is not service:
        _tables = Tables(service)
    return _tables
