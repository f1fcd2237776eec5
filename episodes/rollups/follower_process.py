"""The follower in a process of its own, so that agents' calls and pages never wait for the
interpreter's lock for it.

A thread of the server starts the process, reads how far it has followed and replaces it when it
ends by itself. The process runs this module. It has a lower priority than the server, and ends with
its standard input, which the server closes and which closes however the server ends. A line on it
wakes the follower. After each round the process writes a line of JSON: the places of its parts, and
the seconds since the slowest of them moved.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, NamedTuple

import structlog
from django.conf import settings

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

    from episodes.rollups.follower import Follower

NICENESS = 5
"""Of 0 to 19. More would let other programs keep it waiting while it holds SQLite's write lock."""
FIRST_RETRY_SECONDS = 1.0
MAX_RETRY_SECONDS = 60.0
STOPS = (signal.SIGINT, signal.SIGTERM)

log = structlog.get_logger(__name__)


class _Report(NamedTuple):
    places: Mapping[str, int]
    idle_seconds: float
    heard_at: float
    """By `time.monotonic` of the server."""


class FollowerProcess(threading.Thread):
    """The server's thread. It is used like the thread `Follower`."""

    def __init__(self, delay_seconds: float = 0.0) -> None:
        """Start the process `delay_seconds` after the thread."""
        super().__init__(name="follower", daemon=True)
        self._delay_seconds = delay_seconds
        self._stopped, self._is_woken = threading.Event(), False
        # or a line may be written to what has the descriptor of a closed pipe
        self._writing = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._report = _Report({}, 0.0, time.monotonic())

    def wake(self) -> None:
        """Note that something was committed; once between two reports, as more would say no
        more."""
        if self._is_woken or not (process := self._process):
            return
        self._is_woken = True
        # it has ended and will be replaced
        with self._writing, contextlib.suppress(OSError, ValueError):
            os.write(_input_of(process).fileno(), b"\n")

    def stop(self, timeout_seconds: float) -> None:
        """Wait for the transaction in progress, for at most `timeout_seconds`. Blocks."""
        self._stopped.set()
        if self._process:
            self._close(self._process)
        if self.is_alive():
            self.join(timeout_seconds)
        if self._process and self._process.poll() is None:
            self._process.kill()

    def places(self) -> dict[str, int]:
        """Return the number of the last ending that each part has followed; empty before the first
        report."""
        return dict(self._report.places)

    def idle_seconds(self) -> float:
        """Return how long ago each part last followed something, or found nothing to follow: the
        longest of them."""
        return self._report.idle_seconds + time.monotonic() - self._report.heard_at

    def run(self) -> None:
        # The process inherits this until it ignores them. A signal to all processes of the service
        # may come earlier.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        retry_seconds = self._delay_seconds
        while not self._stopped.wait(retry_seconds):
            began = time.monotonic()
            status = self._follow()
            if self._stopped.is_set():
                return
            is_long = time.monotonic() - began > MAX_RETRY_SECONDS
            retry_seconds = (
                FIRST_RETRY_SECONDS if is_long else max(FIRST_RETRY_SECONDS, retry_seconds * 2)
            )
            retry_seconds = min(retry_seconds, MAX_RETRY_SECONDS)
            log.warning("follower_ended", status=status, again_in_seconds=retry_seconds)

    def _follow(self) -> int | str:
        """Start the process, and read its reports until it has ended. Returns its status, or why it
        did not start."""
        paths = os.pathsep.join(filter(None, sys.path))
        try:
            self._process = process = subprocess.Popen(  # nosec B603 # this interpreter
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                # the modules of environments may have set theirs
                env={
                    **os.environ,
                    "PYTHONPATH": paths,
                    "DJANGO_SETTINGS_MODULE": str(settings.SETTINGS_MODULE),
                },
            )
        except OSError as error:  # there are no more processes or descriptors
            return error.strerror or str(error)
        if self._stopped.is_set():
            self._close(process)
        self._is_woken = False
        with open(process.stdout.fileno(), "rb", closefd=False) as reports:  # type: ignore[union-attr]  # it is a pipe
            for line in reports:
                self._hear(line)
        self._close(process)
        return process.wait()

    def _hear(self, line: bytes) -> None:
        """Take a report. Other lines are what some library printed."""
        try:
            places, idle_seconds = json.loads(line)
            report = _Report(dict(places), float(idle_seconds), time.monotonic())
        except (TypeError, ValueError, RecursionError):
            # never the line: it may contain what a row holds
            log.warning("follower_printed", characters=len(line))
        else:
            self._report, self._is_woken = report, False

    def _close(self, process: subprocess.Popen[bytes]) -> None:
        with self._writing:
            _input_of(process).close()


def _input_of(process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdin  # nosec B101 # it is started with a pipe
    return process.stdin


# --- the program ----------------------------------------------------------------------------------


def main() -> None:
    """Follow until the standard input ends."""
    for number in STOPS:  # also sent to the server, which knows when to end this
        signal.signal(number, signal.SIG_IGN)
    os.nice(NICENESS)
    gc.disable()  # what is imported stays; scanning it takes a seventh of the start
    import django

    django.setup()
    from django.db.backends.signals import connection_created

    from episodes.rollups.follower import Follower

    connection_created.connect(relax_commits)
    gc.freeze()
    gc.enable()
    follower = Follower(is_alone=True, after_round=_report)
    threading.Thread(target=_listen, args=(follower,), name="server", daemon=True).start()
    with contextlib.suppress(BrokenPipeError):  # the server has ended
        follower.run()


def relax_commits(connection: BaseDatabaseWrapper, **_: object) -> None:
    """Let no commit of a new connection wait for the disk, which would keep the recorder waiting,
    too.

    What a crash of the machine takes back is followed again, because its Progress is taken back
    with it.
    """
    with connection.cursor() as cursor:
        is_sqlite = connection.vendor == "sqlite"
        cursor.execute(
            "PRAGMA synchronous=NORMAL" if is_sqlite else "SET synchronous_commit TO off"
        )


def _listen(follower: Follower) -> None:
    while os.read(0, 4096):
        follower.wake()
    follower.stop(0.0)


def _report(follower: Follower) -> None:
    os.write(1, json.dumps([follower.places(), follower.idle_seconds()]).encode() + b"\n")


if __name__ == "__main__":
    main()
