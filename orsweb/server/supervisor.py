"""The supervisor of `manage.py serve`: it owns the listening sockets, and runs the server in
processes of its own.

Hosted code runs in the server's process and can end it at any moment. The supervisor then starts
another server; meanwhile clients wait in the backlog of the sockets instead of being refused, and
after a while `startup_answers.py` answers them. The supervisor runs no hosted code and opens no
database, so it always answers signals: it passes on a request to stop, and kills the server after
ORSWEB_SHUTDOWN_TIMEOUT.

With ORSWEB_PROCESSES it runs several servers, each with its own sockets on the same port. The first
starts alone, so that a problem is reported once; the others follow when it is ready. Each is
restarted by itself. While one that keeps dying is paused, the others take its connections.

On a request to reload, the supervisor checks whether the installed program can be served, and
becomes that program (`succession.py`), which lets the servers hand over to new ones: a single
server before its successor starts, because it has the database alone, and one of several when its
successor is ready. After ORSWEB_RELOAD_LIMIT it gives up: servers without a successor go on, and
another reload may follow. A request during a reload is served afterwards, because the code may have
changed since the check. A server's death also leads to a reload if the files of orsweb have
changed, because a new fork would mix two versions.

Servers are forked, so the first start takes no longer than without a supervisor. If the supervisor
dies, the kernel kills them. What hosted code has started ends with its server (`orphans.py`).
"""

from __future__ import annotations

import math
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from environments.runtime.crash_notes import read_sources
from environments.runtime.incident_reports import IncidentReport
from orsweb.server import forks
from orsweb.server.orphans import Orphans
from orsweb.server.server_process import ServerPlace, ServerProcess
from orsweb.server.succession import (
    RELOAD,
    Predecessor,
    SuccessorCheck,
    become_successor,
    installed_code,
    note_reload,
    note_start,
    note_state,
)
from orsweb.server.watchdog import describe, facts_of

POLL_SECONDS = 0.2
CHECK_SECONDS = 30.0
"""How long a check of new code may keep a server that has died from being started again."""
STOP_SHARE = 23 / 24
"""Share of ORSWEB_SHUTDOWN_TIMEOUT after which a server that does not end is killed; one that does
has ended before."""

_STOP = (signal.SIGTERM, signal.SIGINT)
_WATCHED = (signal.SIGCHLD, RELOAD, signal.SIGHUP, *_STOP)

log = structlog.get_logger(__name__)


class Supervisor:
    """Runs a server at each place, one after the other on the same sockets, until it is asked to
    stop."""

    def __init__(
        self,
        places: Sequence[ServerPlace],
        stop_seconds: float,
        silence_seconds: float,
        directory: Path,
        predecessors: Sequence[Predecessor] = (),
        reload_seconds: float = math.inf,
    ) -> None:
        """`stop_seconds`: how long a server may take to end after it was asked to;
        `silence_seconds`: how long clients wait without an answer while it starts; `directory`:
        where the supervisor notes its state; `predecessors`: the servers of the program before this
        one; `reload_seconds`: how long several may take to be ready in their place.
        """
        self._servers = [ServerProcess(place, silence_seconds) for place in places]
        self._directory = directory
        self._stop_seconds = stop_seconds
        self._predecessors = list(predecessors)
        self._deadline: float | None = None  # once it was asked to stop
        self._has_failed = False  # a server did not stop as it should
        self._check: SuccessorCheck | None = None  # while a reload is prepared
        self._ends_with_terminal = os.isatty(0)  # then SIGHUP says that the terminal was closed
        self._has_been_ready = bool(predecessors) and self._is_several
        self._reload_seconds = reload_seconds
        self._reload_until = time.monotonic() + reload_seconds
        self._has_given_up = False  # the reload, because servers were not ready in time
        self._is_settled = False  # every server has been ready, and its predecessor has ended
        self._orphans = Orphans()
        self._code = installed_code()  # which this process, and what it forks, has loaded in part

    @property
    def _is_several(self) -> bool:
        return len(self._servers) > 1

    def run(self, serve: Callable[[ServerProcess], None]) -> None:
        """Call `serve` in a process for each place, and again whenever that dies. Returns in such a
        process only.

        The supervisor itself ends with the servers if they were asked to stop, or the first could
        not start.
        """
        signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
        if not self._predecessors:
            note_start(self._directory)
        while True:
            for server in self._due():
                if server.fork(_WATCHED):
                    for other in self._servers:
                        if other is not server:
                            other.close()
                    serve(server)
                    return
            self._take_signal()
            for server in self._servers:
                self._look_at(server)
            self._see_predecessors_off()
            self._consider_giving_up()
            self._consider_settled()
            self._orphans.look(self._own())
            if self._check is not None and self._check.is_done:
                self._end_check(self._check)
            if self._deadline is not None:
                self._enforce_stop(self._deadline)

    # --- servers ----------------------------------------------------------------------------------

    def _due(self) -> list[ServerProcess]:
        """Return the servers that have to be started now."""
        now = time.monotonic()
        if self._deadline is not None or (self._predecessors and not self._is_several):
            return []
        if self._check is not None and now - self._check.began < CHECK_SECONDS:
            return []
        servers = self._servers if self._has_been_ready else self._servers[:1]
        return [
            server
            for server in servers
            if not server.pid and server.starts_at <= now and not self._is_replaced(server)
        ]

    def _predecessor_of(self, server: ServerProcess) -> Predecessor | None:
        count = len(self._servers)
        for predecessor in self._predecessors:
            if predecessor.number % count == server.place.number % count:
                return predecessor
        return None

    def _is_replaced(self, server: ServerProcess) -> bool:
        """Return whether an earlier server goes on at its place, because the reload was given
        up."""
        before = self._predecessor_of(server)
        return self._has_given_up and before is not None and before.serves

    def _look_at(self, server: ServerProcess) -> None:
        """Restart it when it has died, and check whether its event loop runs."""
        self._has_been_ready |= server.is_ready  # before it is reaped: it may have died since
        status = server.reap()
        if status is not None:
            self._end_orphans(server)
        if self._predecessor_of(server) is None:
            self._let_others_serve(server)
            server.answer_waiting()
        if status is not None and not self._is_replaced(server):
            self._consider_ending(status, server)
        elif server.pid:
            if server.heartbeat.is_stopping:
                self._begin_to_stop()
            server.watchdog.look()

    def _own(self) -> list[int]:
        """Return the process ids of what this process has started."""
        pids = self._running()
        if self._check is not None:
            pids.append(self._check.pid)
        return pids

    def _end_orphans(self, server: ServerProcess) -> None:
        """End what hosted code has started in a server at this place, which has ended."""
        names = self._orphans.end(self._own(), with_daemons=not self._running())
        if names:
            log.warning("what hosted code had started is ended with its server", processes=names)
            report = IncidentReport(
                "left",
                time.time(),
                ", ".join(names),
                environment=_environment_of(names, server.place.directory),
            )
            report.write(server.place.directory)

    def _consider_ending(self, status: int, server: ServerProcess) -> None:
        """Restart a server that has ended, unless it was to end, or the first start failed."""
        if self._deadline is not None or server.heartbeat.is_stopping:
            self._has_failed |= status not in (0, -signal.SIGTERM)
            self._begin_to_stop()
        elif not self._has_been_ready:
            if status < 0:
                sentence = f"The server died {describe(status)} before it was ready."
                print(sentence, file=sys.stderr, flush=True)
            os._exit(abs(status) and 1)
        else:
            facts = (
                facts_of(server.watchdog.report_death(status)) if server.heartbeat.is_ready else {}
            )
            if self._is_several:
                facts["process"] = server.place.number
            facts |= server.pause()
            self._let_others_serve(server)
            log.error("the server died and is started again", death=describe(status), **facts)
            if self._may_reload and installed_code() != self._code:
                log.warning("the code of orsweb has changed since it was loaded")
                self._begin_to_reload()

    def _let_others_serve(self, server: ServerProcess) -> None:
        """While it rests, leave its connections to the others, if one of them is ready."""
        is_alone = self._predecessor_of(server) is None  # otherwise that shares its sockets
        if (
            server.rests
            and is_alone
            and self._deadline is None
            and any(other.is_ready for other in self._servers)
        ):
            server.leave_port()

    def _consider_settled(self) -> None:
        """Announce once that every server is ready and no earlier one serves any more."""
        if (
            not self._is_settled
            and not self._predecessors
            and all(server.is_ready for server in self._servers)
        ):
            self._is_settled = True
            note_state(self._directory)
            _notify_systemd("READY=1")

    # --- signals and stopping ---------------------------------------------------------------------

    @property
    def _patience(self) -> float:
        now = time.monotonic()
        moments = [
            server.starts_at
            for server in self._servers
            if not server.pid and server.starts_at > now
        ]
        if self._deadline is not None:
            moments.append(self._deadline)
        return max(0.0, min([POLL_SECONDS, *(moment - now for moment in moments)]))

    def _take_signal(self) -> None:
        """Wait for a signal for a moment, and pass a request to stop on to the servers.

        Python returns a signal of any number when this process was suspended until after the end of
        the wait.
        """
        # A request to reload that comes too early stays pending in the kernel, also for the program
        # after this one.
        reloads = {RELOAD} if self._ends_with_terminal else {RELOAD, signal.SIGHUP}
        signals = _WATCHED if self._may_reload else {*_WATCHED} - reloads
        info = signal.sigtimedwait(signals, self._patience)
        number = info.si_signo if info is not None else 0
        if number == RELOAD or (number == signal.SIGHUP and not self._ends_with_terminal):
            self._begin_to_reload()
        elif number in (signal.SIGHUP, *_STOP):
            if self._deadline is None:
                # The terminal sends Ctrl-C to all processes, and a second SIGINT would make uvicorn
                # drop running calls.
                self._begin_to_stop()
            else:
                self._signal_all(number)

    def _begin_to_stop(self) -> None:
        """Ask the servers to stop."""
        if self._deadline is None:
            self._deadline = time.monotonic() + self._stop_seconds * STOP_SHARE
            for server in self._servers:
                server.close()
            _notify_systemd("STOPPING=1")
            self._signal_all(signal.SIGTERM)

    def _signal_all(self, number: int) -> None:
        for pid in self._running():
            os.kill(pid, number)

    def _running(self) -> list[int]:
        """Return the process ids of servers that have not been reaped."""
        pids = [server.pid for server in self._servers if server.pid]
        return pids + [predecessor.pid for predecessor in self._predecessors]

    def _enforce_stop(self, deadline: float) -> None:
        """End the supervisor, at once and without finalizing, when the servers have ended or their
        time is over."""
        if not self._running():
            os._exit(int(self._has_failed))
        if time.monotonic() > deadline:
            log.error(
                "the server did not stop in time and is killed", limit_seconds=self._stop_seconds
            )
            self._signal_all(signal.SIGKILL)
            for server in self._servers:
                if server.pid:
                    server.watchdog.report_death(-signal.SIGKILL, "because it did not stop in time")
            # also the servers: what they leave is there when they have ended
            self._orphans.end((), with_daemons=True)
            os._exit(1)

    # --- reloading --------------------------------------------------------------------------------

    @property
    def _may_reload(self) -> bool:
        is_over = self._is_settled or (
            self._has_given_up and all(predecessor.serves for predecessor in self._predecessors)
        )
        return self._check is None and self._deadline is None and is_over

    def _begin_to_reload(self) -> None:
        if self._may_reload:
            log.info("the new code is checked")
            note_reload(self._directory)
            self._check = SuccessorCheck(self._directory)

    def _end_check(self, check: SuccessorCheck) -> None:
        """Go on with the new program if it can be served."""
        self._check = None
        self._orphans.end(self._own(), with_daemons=False)
        if problem := check.problem():
            log.error("the new code cannot be served, so the present one goes on", reason=problem)
            note_state(self._directory, problem)
        elif self._deadline is None:
            _notify_systemd("RELOADING=1")
            running = {predecessor.number: predecessor.pid for predecessor in self._predecessors}
            running |= {server.place.number: server.pid for server in self._servers if server.pid}
            for server in self._servers:
                server.listen()
            become_successor(running, [server.place.listeners for server in self._servers])

    def _see_predecessors_off(self) -> None:
        """Ask servers of the program before this one to hand over when it is time, and wait until
        they have ended."""
        if not self._predecessors:
            return
        for predecessor in list(self._predecessors):
            server = self._servers[predecessor.number % len(self._servers)]
            if self._deadline is None and (server.is_ready or not self._is_several):
                predecessor.hand_over()
            predecessor.enforce()
            if predecessor.has_ended():
                self._predecessors.remove(predecessor)
                server.succeed()
                self._end_orphans(server)

    def _consider_giving_up(self) -> None:
        """Let earlier servers go on whose successors were not ready in time."""
        if (
            not self._is_several
            or self._has_given_up
            or self._deadline is not None
            or time.monotonic() <= self._reload_until
            or not any(predecessor.serves for predecessor in self._predecessors)
        ):
            return
        self._has_given_up = True
        for server in self._servers:
            if server.pid and self._is_replaced(server):
                os.kill(server.pid, signal.SIGKILL)
        problem = (
            f"The new servers were not ready after {self._reload_seconds:g} s "
            "(ORSWEB_RELOAD_LIMIT); see the log."
        )
        log.error("the reload is given up, so the present servers go on", reason=problem)
        note_state(self._directory, problem)
        _notify_systemd("READY=1")


def _environment_of(names: Sequence[str], directory: Path) -> str:
    """Return the environment whose code has forked these processes; empty if it is not a single
    one. Programs that it has started don't say whose they are."""
    processes = {name.rpartition(" (pid ")[0] for name in names}
    environments = [name for name in read_sources(directory) if forks.name_of(name) in processes]
    return environments[0] if len(environments) == 1 else ""


def _notify_systemd(state: str) -> None:
    """Tell systemd, if it has started this process and waits for that (Type=notify)."""
    if address := os.environ.get("NOTIFY_SOCKET"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifier:
            notifier.sendto(state.encode(), address.replace("@", "\0", 1))
