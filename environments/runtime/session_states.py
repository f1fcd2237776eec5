"""The states of a live session, what belongs to each of them alone, and the table of its
transitions.

What only one state has is a field of that state, so it is gone with it: a session that is ready has
no fault, and none is suspended that is not ending. `Session.enter` is the only way from one state
to another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from environments.errors import EnvironmentFault
from environments.runtime.records import Cause, OpenEpisode, RecordedPast
from environments.runtime.session_request import SessionRequest

Heir = Literal["nobody", "client", "server"]
"""Who goes on with the id of a session that ends. client: its client opens it again, so its place
stays taken; server: the server stops, and the next one goes on with the episode."""
Event = Literal[
    "wake", "bind", "refuse", "set up", "start", "limit", "fail", "close", "drop", "end"
]


@dataclass(slots=True, eq=False)
class Dormant:
    """An earlier server opened it. It waits for its client's next request."""

    origin: OpenEpisode | SessionRequest
    """Its episode, or what opens it, if it was not bound to an environment yet."""
    past: asyncio.Task[RecordedPast] | None = None
    """Once it is being read."""
    key: str = ""
    """The API key, once its client has sent it."""


@dataclass(slots=True, eq=False)
class Unbound:
    """It was opened without an environment. The first path that names one binds it."""

    request: SessionRequest


@dataclass(slots=True, eq=False)
class Constructing:
    """Its environment is constructed, or plays again what it did under an earlier server."""

    request: SessionRequest | None
    """What opens it, with its secrets; None for one that comes back."""
    work: asyncio.Task[Any] | None = None
    """While the author's code runs."""


@dataclass(slots=True, eq=False)
class SettingUp:
    """The author's setup runs."""

    work: asyncio.Task[None]


@dataclass(slots=True, eq=False)
class Ready:
    """Its calls run, until the episode has finished; then its environment refuses them."""


@dataclass(slots=True, eq=False)
class Over:
    """The server has ended its episode. It stays open until its client leaves, to say why calls are
    refused."""

    limit: str
    """Why; completes a sentence."""

    @property
    def sentence(self) -> str:
        return ended_by(self.limit)


@dataclass(slots=True, eq=False)
class Failed:
    """Its construction or setup has failed, as every request is told."""

    fault: EnvironmentFault


@dataclass(slots=True, eq=False)
class Closing:
    """Its calls are stopped, its environment is torn down, and its end is recorded."""

    cause: Cause
    detail: str = ""
    heir: Heir = "nobody"


@dataclass(slots=True, eq=False)
class Gone(Closing):
    """It has ended: its id and its places are free."""


State = Dormant | Unbound | Constructing | SettingUp | Ready | Over | Failed | Closing | Gone
READY = Ready()

TRANSITIONS: Mapping[tuple[type[State], Event], tuple[type[State], ...]] = {
    # a request that needs its environment; recorded calls are made again if it was bound to one
    (Dormant, "wake"): (Unbound, Constructing),
    # a path names an environment, whose instance is constructed
    (Unbound, "bind"): (Constructing,),
    # that environment has no such task, or can't be played now; another path may bind the session
    (Constructing, "refuse"): (Unbound,),
    # the instance is constructed, and its class has a setup, which begins
    (Constructing, "set up"): (SettingUp,),
    # calls that waited run now
    (Constructing, "start"): (Ready,),
    (SettingUp, "start"): (Ready,),
    # the episode has ended as setup_failed
    (Constructing, "fail"): (Failed,),
    (SettingUp, "fail"): (Failed,),
    # the episode ends as expired: running calls are stopped, and the environment is torn down
    (Ready, "limit"): (Over,),
    # whatever ends a session: its client, its time, the end of its run or key, a lost host, the
    # stop of the server
    **{
        (state, "close"): (Closing,)
        for state in (Dormant, Unbound, Constructing, SettingUp, Ready, Over, Failed)
    },
    # the request that was to open it was refused; nothing was played, or a failed construction is
    # on record
    (Unbound, "drop"): (Gone,),
    (Constructing, "drop"): (Gone,),
    # its end is on record
    (Closing, "end"): (Gone,),
}
"""By the state that a session is in, and what happens: the states that it may enter, with what is
done meanwhile."""


class IllegalTransition(Exception):
    """A session was to enter a state to which no transition leads; a mistake in this package."""


def ended_by(limit: str) -> str:
    """Return the sentence that says why the server has ended an episode."""
    return f"It was ended, because {limit}."
