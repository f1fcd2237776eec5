"""The supervisor of `manage.py serve`: it owns the listening sockets, and runs the server in a process of its own.

Hosted code runs in the server's process and can end it at any moment. The supervisor starts it again; meanwhile clients
wait in the backlog of the sockets instead of being refused, and when that takes long, `starting.py` answers them. It
runs no hosted code and opens no database, so it answers signals whatever the server does: it passes on a request to
stop, and enforces that after ORSWEB_SHUTDOWN_TIMEOUT.

Asked to reload, it checks whether the program that is installed now can be served, and becomes that program
(`succession.py`), which lets the server hand over to a new one.

The server is forked, so the first start takes no longer than without a supervisor. If the supervisor dies, the kernel
kills the server.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from orsweb.server.pulse import Pulse
from orsweb.server.starting import StartingAnswers
from orsweb.server.succession import RELOAD, SuccessorCheck, become_successor, note_state
from orsweb.server.watchdog import Watchdog, describe, facts_of

POLL_SECONDS = 0.2
STOP_SHARE = 23 / 24
"""Share of ORSWEB_SHUTDOWN_TIMEOUT after which a server that does not end is killed; one that does has ended before."""
STABLE_SECONDS = 60.0
"""A server that has lived this long is started again at once when it dies."""
MAX_BACK_OFF_SECONDS = 30.0

_STOP = (signal.SIGTERM, signal.SIGINT)
_WATCHED = (signal.SIGCHLD, RELOAD, signal.SIGHUP, *_STOP)
_PR_SET_PDEATHSIG = 1

log = structlog.get_logger(__name__)


class Supervisor:
    """Runs one server after the other on the same sockets, until it is asked to stop."""

    def __init__(
        self, listeners: Sequence[socket.socket], stop_seconds: float, silence_seconds: float, directory: Path
    ) -> None:
        """`stop_seconds`: how long a server may take to end after it was asked to; `silence_seconds`: how long clients
        wait without an answer while it starts; `directory`: where it notes what it runs.
        """
        self._listeners, self._directory = listeners, directory
        self._stop_seconds = stop_seconds
        self._answers = StartingAnswers(listeners, silence_seconds)
        self._deadline: float | None = None  # once it was asked to stop
        self._check: SuccessorCheck | None = None  # while a reload is prepared
        self._ends_with_terminal = os.isatty(0)  # then SIGHUP says that the terminal was closed
        self._has_been_ready = False
        self._deaths = 0  # since a server has lived for STABLE_SECONDS

    def run(self, serve: Callable[[Pulse], None]) -> None:
        """Call `serve` in a process of its own, and again whenever that dies. Returns in such a process only.

        The supervisor itself ends with the server if that was asked to stop, or could not start.
        """
        signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
        while True:
            pulse, supervisor, started = Pulse(), os.getpid(), time.monotonic()
            if not (server := os.fork()):
                _become_server(supervisor)
                serve(pulse)
                return
            watchdog = Watchdog(server, pulse, self._directory)
            status = self._watch(server, pulse, watchdog)
            self._answers.restart()
            self._consider_ending(status, pulse)
            facts = facts_of(watchdog.report_death(status)) if pulse.is_ready else {}
            self._deaths = 1 if time.monotonic() - started > STABLE_SECONDS else self._deaths + 1
            pause = 0.0 if self._deaths == 1 else min(2.0 ** (self._deaths - 2), MAX_BACK_OFF_SECONDS)
            log.error("the server died and is started again", death=describe(status), pause_seconds=pause, **facts)
            self._wait(pause)

    def _watch(self, server: int, pulse: Pulse, watchdog: Watchdog) -> int:
        """Wait until the server has ended, and return its exit status; negative: the signal that ended it."""
        while True:
            self._take_signal(self._patience, server)
            done, status = os.waitpid(server, os.WNOHANG)
            self._answers.give(is_ready=pulse.is_ready)
            if pulse.is_ready and not self._has_been_ready:
                self._has_been_ready = True
                note_state(self._directory)
                _notify_systemd("READY=1")
            if self._check is not None and self._check.is_done:
                self._end_check(self._check, server)
            if done:
                return os.waitstatus_to_exitcode(status)
            if pulse.is_stopping:
                self._begin_to_stop()
            watchdog.look()
            if self._deadline is not None and time.monotonic() > self._deadline:
                log.error("the server did not stop in time and is killed", limit_seconds=self._stop_seconds)
                os.kill(server, signal.SIGKILL)
                watchdog.report_death(-signal.SIGKILL, "because it did not stop in time")
                os._exit(1)

    @property
    def _patience(self) -> float:
        left = POLL_SECONDS if self._deadline is None else self._deadline - time.monotonic()
        return max(0.0, min(POLL_SECONDS, left))

    def _take_signal(self, seconds: float, server: int | None) -> None:
        """Wait for a signal at most `seconds`, and pass a request to stop on to the server.

        Python returns a signal of any number when this process was suspended until after the end of the wait.
        """
        taken = signal.sigtimedwait(_WATCHED, seconds)
        number = taken.si_signo if taken is not None else 0
        if number == RELOAD or (number == signal.SIGHUP and not self._ends_with_terminal):
            self._begin_to_reload()
        elif number in (signal.SIGHUP, *_STOP):
            self._pass_on(number, server)

    def _pass_on(self, number: int, server: int | None) -> None:
        """Ask the server to stop."""
        is_repeated = self._deadline is not None
        self._begin_to_stop()
        if server is None:
            os._exit(0)
        # The terminal sends Ctrl-C to both processes, and a second SIGINT would make uvicorn drop running calls.
        os.kill(server, number if is_repeated else signal.SIGTERM)

    def hand_over(self, server: int, wait_seconds: float) -> None:
        """Let a server that was started by the program before this one hand over, and wait until it has ended.

        It may take `wait_seconds` longer than a stop. A request to stop ends this supervisor too.
        """
        signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
        os.kill(server, RELOAD)
        until = time.monotonic() + wait_seconds + self._stop_seconds
        while not os.waitpid(server, os.WNOHANG)[0]:
            self._take_signal(self._patience, server)
            if time.monotonic() > min(until, self._deadline or until):
                os.kill(server, signal.SIGKILL)
        if self._deadline is not None:
            os._exit(0)
        self._answers.begin()

    def _begin_to_reload(self) -> None:
        if self._check is None and self._deadline is None and self._has_been_ready:
            log.info("the new code is checked")
            self._check = SuccessorCheck(self._directory)

    def _end_check(self, check: SuccessorCheck, server: int) -> None:
        """Go on with the new program if it can be served."""
        self._check = None
        if problem := check.problem():
            log.error("the new code cannot be served, so the present one goes on", reason=problem)
            note_state(self._directory, problem)
        elif self._deadline is None:
            _notify_systemd("RELOADING=1")
            become_successor(server, self._listeners)

    def _begin_to_stop(self) -> None:
        if self._deadline is None:
            self._deadline = time.monotonic() + self._stop_seconds * STOP_SHARE
            for listener in self._listeners:
                listener.close()
            _notify_systemd("STOPPING=1")

    def _consider_ending(self, status: int, pulse: Pulse) -> None:
        """End the supervisor, at once and without finalizing, unless the server has to be started again."""
        if self._deadline is not None or pulse.is_stopping:
            os._exit(0 if status in (0, -signal.SIGTERM) else 1)
        if not self._has_been_ready:
            if status < 0:
                print(f"The server died {describe(status)} before it was ready.", file=sys.stderr, flush=True)
            os._exit(abs(status) and 1)

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._take_signal(min(left, POLL_SECONDS), None)
            self._answers.give(is_ready=False)


def _become_server(supervisor: int) -> None:
    """Prepare the process that was just forked."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != supervisor:  # it died before
        os._exit(1)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)


def _notify_systemd(state: str) -> None:
    """Tell systemd, if it has started this process and waits for that (Type=notify)."""
    if address := os.environ.get("NOTIFY_SOCKET"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifier:
            notifier.sendto(state.encode(), address.replace("@", "\0", 1))
