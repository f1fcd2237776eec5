"""Replaces `serve` by the installed version without closing its sockets: `manage.py reload`.

The supervisor replaces its own program (`exec`) and keeps its process id, its sockets and the
servers that it has started. These go on until the new program is loaded, then they hand over.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

from django.conf import settings

from environments import conf

RELOAD = signal.SIGUSR1
"""Tells a supervisor to reload, and a server to hand over to the next one."""
_INHERITED = "ORSWEB_INHERITED"
_CHECK = "--check"


class Predecessor:
    """A server that the program before this one has started, and that still runs."""

    def __init__(self, number: int, pid: int, hand_over_seconds: float) -> None:
        """`number`: of its place; `hand_over_seconds`: how long it may take to hand over."""
        self.number, self.pid = number, pid
        self._hand_over_seconds = hand_over_seconds
        self._until: float | None = None

    def hand_over(self) -> None:
        """Tell it to hand over to the next server; further calls do nothing."""
        if self._until is None:
            self._until = time.monotonic() + self._hand_over_seconds
            os.kill(self.pid, RELOAD)

    @property
    def serves(self) -> bool:
        """Whether it has not been told to hand over."""
        return self._until is None

    def enforce(self) -> None:
        """Kill it if its time is over."""
        if self._until is not None and time.monotonic() > self._until:
            os.kill(self.pid, signal.SIGKILL)

    def has_ended(self) -> bool:
        return bool(os.waitpid(self.pid, os.WNOHANG)[0])


@dataclass(frozen=True, slots=True)
class Inheritance:
    """What the program before this one has left in the process."""

    servers: dict[int, int]
    """Process ids of the servers, which still run, by the numbers of their places."""
    listeners: list[list[socket.socket]]
    """The listening sockets of each server."""


def inherited() -> Inheritance | None:
    """Return what this program has inherited; None if it was started in the ordinary way. Called
    once."""
    if (text := os.environ.pop(_INHERITED, "")) == "":
        return None
    servers, descriptors = json.loads(text)
    listeners = [
        [socket.socket(fileno=descriptor) for descriptor in of_server] for of_server in descriptors
    ]
    for listener in chain(*listeners):
        listener.set_inheritable(False)
        listener.setblocking(False)
    return Inheritance({int(number): pid for number, pid in servers.items()}, listeners)


def become_successor(
    servers: Mapping[int, int], listeners: Sequence[Sequence[socket.socket]]
) -> NoReturn:
    """Replace the program of this process by the one that is installed now; the arguments are its
    Inheritance."""
    for listener in chain(*listeners):
        listener.set_inheritable(True)
    descriptors = [[listener.fileno() for listener in of_server] for of_server in listeners]
    os.environ[_INHERITED] = json.dumps([servers, descriptors])
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # nosec B606 # our own command line


def installed_code() -> frozenset[tuple[str, int]]:
    """Return the files of orsweb that are installed now, each with the moment of its last
    change."""
    files = set[tuple[str, int]]()
    for name in ("environments", "episodes", "orsweb"):
        for file in Path(str(sys.modules[name].__file__)).parent.rglob("*.py"):
            with suppress(OSError):  # it was replaced at this moment
                files.add((str(file), file.stat().st_mtime_ns))
    return frozenset(files)


class SuccessorCheck:
    """The program that is installed now, started beside the present one to see whether it can be
    served."""

    def __init__(self, directory: Path) -> None:
        self.began = time.monotonic()
        self._output = directory / "reload-check"
        with self._output.open("wb") as output:
            command = [sys.executable, *sys.orig_argv[1:], _CHECK]
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )  # nosec B603 # our own command line

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_done(self) -> bool:
        return self._process.poll() is not None

    def problem(self) -> str:
        """Return what is wrong with the program: the last line that it has printed; empty if
        nothing is."""
        if self._process.poll() == 0:
            return ""
        lines = self._output.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"It ended with status {self._process.returncode}."


@dataclass(frozen=True, slots=True)
class ServeState:
    """What `manage.py reload` knows of a running `serve`."""

    pid: int
    at: float = 0.0
    """When the servers were ready, or a reload was refused; seconds since the epoch. 0: they are
    starting."""
    problem: str = ""
    """Why the last reload was refused; empty if it was not."""
    database: str = ""
    """Which database it serves."""
    cluster: str = ""
    """Its ORSWEB_CLUSTER."""
    reload_began: float = 0.0
    """When the last reload began, before or after `at`; seconds since the epoch. 0: there was
    none."""

    def is_outcome_of(self, moment: float) -> bool:
        """Return whether a reload is over that began at or after `moment`, or nobody knows when it
        began."""
        return not self.reload_began or moment <= self.reload_began < self.at

    def write(self, directory: Path) -> None:
        path = directory / "serve.json"
        partial = path.with_suffix(".part")
        partial.write_text(json.dumps(asdict(self)))
        partial.rename(path)


def note_state(directory: Path, problem: str = "") -> None:
    """Note that the servers of this supervisor are ready, or that a reload was refused because of
    `problem`."""
    _note(directory, at=time.time(), problem=problem)


def note_start(directory: Path) -> None:
    """Note that the servers of this supervisor are starting, unless others run there: then these
    will not get ready."""
    if read_state(directory) is None:
        _note(directory)


def note_reload(directory: Path) -> None:
    """Note that a reload begins."""
    _note(directory, reload_began=time.time())


def _note(directory: Path, **changes: Any) -> None:
    """Change what this supervisor has noted."""
    state = read_state(directory)
    if state is None or state.pid != os.getpid():
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = ServeState(os.getpid())
    database, cluster = conf.database_name(), conf.cluster_address()
    replace(state, database=database, cluster=cluster, **changes).write(directory)


def read_state(directory: Path) -> ServeState | None:
    """Return what the `serve` that runs has noted; None if none runs."""
    with suppress(OSError, ValueError, TypeError):
        state = ServeState(**json.loads((directory / "serve.json").read_text()))
        os.kill(state.pid, 0)
        return state
    return None


def state_of_supervisor() -> ServeState | None:
    """Return what the `serve` has noted that has started this process; None if none has."""
    states = map(read_state, Path(settings.DATA_DIR).glob("process-*"))
    return next((state for state in states if state and state.pid == os.getppid()), None)


def others_of_database(directory: Path) -> list[ServeState]:
    """Return what other `serve`s of this database on this machine have noted than the one of
    `directory`."""
    paths = sorted(path for path in directory.parent.glob("process-*") if path != directory)
    states = [state for path in paths if (state := read_state(path))]
    return [state for state in states if state.database == conf.database_name()]
