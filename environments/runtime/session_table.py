"""The live sessions of a server by id, with their owners and limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from environments.authoring.hosted_environment import HostedEnvironment
from environments.errors import Draining, SessionExists, SessionNotFound, TooManySessions
from environments.limits import Limits
from environments.quotas import Places
from environments.runtime.live_episode import LiveEpisode
from environments.runtime.records import SessionPlaces
from environments.runtime.secrets_mask import RecentSecrets
from environments.runtime.session import Session
from environments.runtime.session_request import SessionRequest
from environments.runtime.session_states import Closing, State


class SessionTable:
    """The sessions of one event loop."""

    def __init__(self, environments: Iterable[HostedEnvironment], limits: Limits) -> None:
        self._limits = limits
        self._by_id: dict[str, Session] = {}
        self.suspended: set[str] = set()  # ids of sessions with which the next server goes on
        self.secrets = RecentSecrets()
        self.places_in = {
            environment.name: Places(count)
            for environment in environments
            if (count := environment.sessions_at_once)
        }
        """Places for sessions of the environments that limit their number."""
        self.session_places: SessionPlaces | None = None
        """Tells other servers, and the next one, which sessions this one has."""
        self.accepts: Literal["everything", "calls", "nothing"] = "everything"
        """What a server that stops still accepts: calls of its sessions, or nothing."""

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._by_id.values()))

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, sid: str) -> bool:
        return sid in self._by_id

    def get(self, sid: str, owner: str | None = None) -> Session | None:
        """Return the session of `owner` (None: anyone), or None."""
        session = self._by_id.get(sid)
        return session if session is not None and owner in (None, session.owner) else None

    def find(self, sid: str, owner: str) -> Session:
        """Return the session. Raises: SessionNotFound, also for a session of another key;
        Draining."""
        if (session := self._by_id.get(sid)) is None:
            self.check_suspended(sid)
        if session is None or session.owner != owner:
            raise SessionNotFound
        return session

    def check_suspended(self, sid: str) -> None:
        """Raise Draining if this server has ended the session, and the next one goes on with it."""
        if sid in self.suspended:
            raise Draining

    def check_room(self, sid: str) -> None:
        """Raises: Draining, SessionExists, TooManySessions."""
        if self.accepts != "everything":
            raise Draining
        if sid in self._by_id:
            raise SessionExists
        if len(self._by_id) >= (limit := self._limits.max_sessions):
            raise TooManySessions(
                f"{limit} sessions are live, the most that ORSWEB_MAX_SESSIONS allows; delete one "
                "or wait"
            )

    def add(self, request: SessionRequest, state: State) -> Session:
        """Add a session, whose place among those of its key is taken."""
        session = Session(request.sid, request.owner, request.usage, LiveEpisode(request), state)
        self._by_id[session.sid] = session
        self.secrets.hold(session.owner, session.episode.secrets)
        return session

    def mask(self, session: Session, *secrets: str) -> None:
        """Mask further secrets of a session, in its record and in what is printed."""
        new = tuple(secret for secret in secrets if secret not in session.episode.secrets)
        self.secrets.hold(session.owner, new)
        session.episode.mask_further(new)

    def remove(self, session: Session) -> None:
        """Free the session's id and its places, unless its heir goes on with them."""
        del self._by_id[session.sid]
        self.secrets.release(session.owner, session.episode.secrets)
        heir = session.state.heir if isinstance(session.state, Closing) else "nobody"
        if heir == "server":
            self.suspended.add(session.sid)
        elif heir == "nobody" and self.session_places is not None:
            self.session_places.release(session.sid)
        session.usage.sessions.leave()
        if session.place is not None:
            session.place.leave()
        if session.timer is not None:
            session.timer.cancel()
