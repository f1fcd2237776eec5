"""How `serve` gives way to a new version of itself without closing its sockets: `manage.py reload`.

The supervisor replaces its own program by what is installed now (`exec`), which keeps its process id, its sockets and
the server that it has started. That one goes on until the new program has been loaded; then it hands over.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

RELOAD = signal.SIGUSR1
"""Asks a supervisor to reload, and a server to hand over to the next one."""
_INHERITED = "ORSWEB_INHERITED"
_CHECK = "--check"


@dataclass(frozen=True, slots=True)
class Inheritance:
    """What the program before this one has left in the process."""

    server: int
    """Process id of the server, which still runs."""
    listeners: list[socket.socket]


def inherited() -> Inheritance | None:
    """Return what this program has inherited; None if it was started in the ordinary way. Called once."""
    if (text := os.environ.pop(_INHERITED, "")) == "":
        return None
    server, *descriptors = map(int, text.split())
    listeners = [socket.socket(fileno=descriptor) for descriptor in descriptors]
    for listener in listeners:
        listener.set_inheritable(False)
        listener.setblocking(False)
    return Inheritance(server, listeners)


def become_successor(server: int, listeners: Sequence[socket.socket]) -> NoReturn:
    """Replace the program of this process by the one that is installed now."""
    for listener in listeners:
        listener.set_inheritable(True)
    os.environ[_INHERITED] = " ".join(map(str, (server, *(listener.fileno() for listener in listeners))))
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # nosec B606 # our own command line


class SuccessorCheck:
    """The program that is installed now, started beside the present one to see whether it can be served."""

    def __init__(self, directory: Path) -> None:
        self._output = directory / "reload-check"
        with self._output.open("wb") as output:
            command = [sys.executable, *sys.orig_argv[1:], _CHECK]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)  # nosec B603 # our own command line

    @property
    def is_done(self) -> bool:
        return self._process.poll() is not None

    def problem(self) -> str:
        """Return what is wrong with the program: the last line that it has printed; empty if nothing is."""
        if self._process.poll() == 0:
            return ""
        lines = self._output.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"It ended with status {self._process.returncode}."


@dataclass(frozen=True, slots=True)
class ServeState:
    """What `manage.py reload` knows of a running `serve`."""

    pid: int
    at: float
    """When the server was ready, or a reload was refused; seconds since the epoch."""
    problem: str = ""
    """Why the last reload was refused; empty if it was not."""

    def write(self, directory: Path) -> None:
        path = directory / "serve.json"
        unfinished = path.with_suffix(".part")
        unfinished.write_text(json.dumps(asdict(self)))
        unfinished.rename(path)


def note_state(directory: Path, problem: str = "") -> None:
    """Note that the server of this supervisor is ready, or that a reload was refused because of `problem`."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    ServeState(os.getpid(), time.time(), problem).write(directory)


def read_state(directory: Path) -> ServeState | None:
    """Return what the `serve` that runs has noted; None if none runs."""
    with suppress(OSError, ValueError, TypeError):
        state = ServeState(**json.loads((directory / "serve.json").read_text()))
        os.kill(state.pid, 0)
        return state
    return None
