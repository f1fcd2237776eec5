"""One of the server's processes, as the supervisor sees it: forked, watched, and started again when
it dies."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from orsweb.server.heartbeat import Heartbeat
from orsweb.server.listening import listen_again
from orsweb.server.startup_answers import StartupAnswers
from orsweb.server.watchdog import Watchdog

STABLE_SECONDS = 60.0
"""A server that has lived this long is started again at once when it dies."""
MAX_BACK_OFF_SECONDS = 30.0
MAX_WAIT_SECONDS = 5.0
"""Longest pause while clients wait. `ors-sdk` gives up a call after 15 s."""

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class ServerPlace:
    """Where a server listens and notes what it runs. Its successor after a death takes the same
    place."""

    number: int
    """From 0; unique among the servers of this machine that run at the same time."""
    listeners: list[socket.socket]
    """Empty while the server is away and others on the port take its connections."""
    address: str
    """Where other servers of the database reach it; empty if it has its database alone."""
    directory: Path


class ServerProcess:
    """Runs one server after the other at one place."""

    def __init__(self, place: ServerPlace, silence_seconds: float) -> None:
        """`silence_seconds`: how long clients wait without an answer while it starts."""
        self.place = place
        self.pid = 0
        """Process id; 0 while none runs."""
        self.heartbeat = Heartbeat()
        self.starts_at = 0.0
        """Moment at which to start it, if it does not run; on the monotonic clock."""
        self._addresses = [
            (listener.family, listener.getsockname()) for listener in place.listeners
        ]
        self._answers = StartupAnswers(place.listeners, silence_seconds)
        self._started = time.monotonic()
        self._deaths = 0  # since a server has lived for STABLE_SECONDS
        self._died = 0.0  # on the monotonic clock

    @property
    def is_ready(self) -> bool:
        """Whether it runs and answers."""
        return self.pid != 0 and self.heartbeat.is_ready

    def fork(self, watched_signals: Collection[signal.Signals]) -> bool:
        """Start the server; return True in the new process, which gets `watched_signals` again.
        Raises: OSError."""
        self.listen()
        self.heartbeat, supervisor, self._started = Heartbeat(), os.getpid(), time.monotonic()
        self.pid = os.fork()
        if self.pid == 0:
            # the kernel kills this process when the supervisor dies
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != supervisor:  # it died before
                os._exit(1)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, watched_signals)
            return True
        self.watchdog = Watchdog(self.pid, self.heartbeat, self.place.directory)
        return False

    def reap(self) -> int | None:
        """Return the exit status if the server has ended (negative: the signal that ended it), or
        None."""
        if self.pid == 0:
            return None
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if not pid:
            return None
        self.pid = 0
        self._answers.restart()
        return os.waitstatus_to_exitcode(status)

    def pause(self) -> dict[str, float]:
        """Note that the server has died; return what the log says about the pause before its
        restart."""
        is_stable = time.monotonic() - self._started > STABLE_SECONDS
        self._deaths = 1 if is_stable else self._deaths + 1
        seconds = 0.0 if self._deaths == 1 else min(2.0 ** (self._deaths - 2), MAX_BACK_OFF_SECONDS)
        self._died = time.monotonic()
        self.starts_at = self._died + seconds
        facts = {"pause_seconds": seconds}
        if seconds > MAX_WAIT_SECONDS:
            facts["pause_seconds_while_clients_wait"] = MAX_WAIT_SECONDS
        return facts

    def succeed(self) -> None:
        """Note that the server of the program before this one has served at this place until
        now."""
        self._answers.begin()

    def answer_waiting(self) -> None:
        """Answer clients that have waited too long for a server that starts, and let it rest less
        while any wait."""
        if self.rests and self._answers.are_awaited():
            self.starts_at = min(self.starts_at, self._died + MAX_WAIT_SECONDS)
        self._answers.give(self.heartbeat, is_ready=self.is_ready)

    @property
    def rests(self) -> bool:
        """Whether its server has died and is not started again for a while."""
        return self.pid == 0 and self.starts_at > time.monotonic()

    def leave_port(self) -> None:
        """Leave new connections to the other servers on the port. Those that wait break, as the
        open ones did."""
        self.close()
        self.place.listeners.clear()

    def listen(self) -> None:
        """Take connections again after `leave_port`. Raises: OSError."""
        if not self.place.listeners:
            self.place.listeners.extend(listen_again(self._addresses))

    def close(self) -> None:
        """Close this process's copies of the listening sockets."""
        for listener in self.place.listeners:
            listener.close()
