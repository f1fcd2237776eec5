"""One live session: who opened it, its state, its environment, its calls, and its episode.

`session_life.py` leads it from one state to the next, `call_execution.py` runs its calls, and its
episode makes the rows that are recorded.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from environments.errors import Draining, OtherEnvironment, SessionDeleted
from environments.quotas import KeyUsage, Places
from environments.runtime.call_outcome import CallOutcome, cut_short, failed
from environments.runtime.call_table import Calls
from environments.runtime.host import PlayedInstance
from environments.runtime.live_episode import LiveEpisode
from environments.runtime.records import GOES_ON, StepTaken
from environments.runtime.session_request import SessionRequest
from environments.runtime.session_states import (
    TRANSITIONS,
    Closing,
    Constructing,
    Dormant,
    Event,
    Failed,
    Gone,
    IllegalTransition,
    Over,
    State,
    Unbound,
)


@dataclass(slots=True, eq=False)
class Session:
    """One live session. On the event loop only."""

    sid: str
    owner: str
    """Label of the API key that opened it."""
    usage: KeyUsage
    episode: LiveEpisode
    state: State
    """Only `enter` changes it. Calls run while it is READY; a Dormant session was opened by an
    earlier server and waits for its client's next request."""
    calls: Calls = field(default_factory=Calls)
    instance: PlayedInstance | None = None
    """From the start of construction until it is closed: an `Instance` (`instance.py`) for a class
    of this process; `environments/hosts/every_host.py` has the others."""
    place: Places | None = None
    """Of an environment that bears a number of sessions only."""
    timer: asyncio.TimerHandle | None = None
    """Ends the episode when the time of its key's quota is over."""
    on_step: Callable[[StepTaken], None] | None = None
    """Called with each step once it is on record."""
    last_used: float = field(default_factory=time.monotonic)
    _waiters: list[asyncio.Future[None]] | None = None

    def enter(self, event: Event, state: State) -> None:
        """Enter `state` because of `event`, and wake everyone who waits for a change.

        Raises: IllegalTransition.
        """
        if type(state) not in TRANSITIONS.get((type(self.state), event), ()):
            names = type(self.state).__name__, event, type(state).__name__
            raise IllegalTransition("A session that is {} can't {!r} and be {}".format(*names))
        self.state = state
        waiters, self._waiters = self._waiters, None
        for waiter in waiters or ():
            if not waiter.done():
                waiter.set_result(None)

    async def wait_for_change(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters = [*(self._waiters or ()), waiter]
        await waiter

    async def until_gone(self) -> None:
        """Wait until the session has ended and its id is free."""
        while not self.is_gone:
            await self.wait_for_change()

    @property
    def is_ending(self) -> bool:
        """Whether the session is ending, or gone. Look after every await: another request may have
        deleted it."""
        return isinstance(self.state, Closing)

    @property
    def is_gone(self) -> bool:
        return isinstance(self.state, Gone)

    @property
    def is_suspended(self) -> bool:
        """Whether the server stops, and the next one goes on with the episode."""
        return isinstance(self.state, Closing) and self.state.heir == "server"

    @property
    def request(self) -> SessionRequest | None:
        """What opens the session again while no environment is constructed and nothing of it is on
        record."""
        state = self.state
        if self.episode.number:
            return None
        if isinstance(state, Unbound | Constructing):
            return state.request
        if isinstance(state, Dormant) and isinstance(state.origin, SessionRequest):
            return state.origin
        return None

    @property
    def repeats_calls(self) -> bool:
        """Whether the next server makes the calls again that have not ended."""
        return self.is_suspended and self.episode.is_replayable

    @property
    def is_survivor(self) -> bool:
        """Whether the next server can go on with the episode after this one has stopped."""
        episode = self.episode
        is_open = (
            episode.number > 0 and episode.ending is None and not isinstance(self.state, Failed)
        )
        return is_open and episode.survival in GOES_ON

    def check_alive(self) -> None:
        """Raise SessionDeleted if the session is ending, or EnvironmentFault if its construction or
        setup has failed.

        Raises Draining if it ends here, and the next server goes on with it.
        """
        state = self.state
        if isinstance(state, Failed):
            raise state.fault.copy()
        if isinstance(state, Closing):
            if state.heir == "server":
                raise Draining
            raise SessionDeleted(state.detail if state.cause == "interrupted" else "")

    def check_path(self, path_environment: str | None) -> None:
        """Raise OtherEnvironment if the path names another environment than the session's."""
        environment = self.episode.environment
        if path_environment and environment and path_environment.lower() != environment:
            raise OtherEnvironment(path_environment, environment)

    def get_instance(self) -> PlayedInstance:
        """Return what plays the session. Raises: SessionDeleted when it was closed."""
        if self.instance is None:
            raise SessionDeleted
        return self.instance

    def cut_short(self) -> CallOutcome:
        """Return the outcome of a call stopped by the end of its session, a limit or the tool
        itself."""
        if isinstance(self.state, Closing):
            return cut_short(self.state.cause, self.state.detail)
        if isinstance(self.state, Over):
            return failed(self.state.sentence, "limit")
        return failed("CancelledError", "CancelledError")
