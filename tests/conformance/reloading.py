"""Reloading a server while somebody visits it, with a module whose code changes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import programs
from tests.server import LiveServer

ENVIRONMENT = """
import os, time
from tests.envs_base import said
from tests.envs_returning import Adding, Forgetting
from environments import ToolOutput, tool

class Changing(Adding):
    @tool
    def version(self) -> ToolOutput:
        "Return the version of the code."
        return said("{version}")

    @classmethod
    def list_tasks(cls, split):
        {first}
        return super().list_tasks(split)

class Dropping(Forgetting):
    pass

class Broken(Adding):
    @classmethod
    def list_tasks(cls, split):
        raise RuntimeError("no list in {version}")
"""


def write(here: Path, version: str, first: str = "pass") -> None:
    """Write the module `changing_env` into `here`; `first`: a statement that runs when tasks are
    listed."""
    # no directory: what was compiled in the same second might be of another version
    (here / "__pycache__").touch()
    (here / "changing_env.py").write_text(
        ENVIRONMENT.replace("{version}", version).replace("{first}", first)
    )


def reload(server: LiveServer) -> tuple[int, str]:
    """Run `manage.py reload`; return its status and what it printed."""
    done = programs.run("reload", env=server.env)
    return done.returncode, done.stdout + done.stderr


@contextmanager
def visited(server: LiveServer, pause_seconds: float = 0.01) -> Iterator[list[str]]:
    """Open one connection after another, with pauses; yields what went wrong."""
    problems: list[str] = []
    is_over = threading.Event()

    def visit() -> None:
        while not is_over.wait(pause_seconds):
            try:
                answer = _asked(server.port)  # a hundredth of what httpx takes
            except OSError as error:
                answer = repr(error)
            if not answer.startswith("HTTP/1.1 200 "):
                problems.append(answer)

    visitor = threading.Thread(target=visit)
    visitor.start()
    try:
        yield problems
    finally:
        is_over.set()
        visitor.join()


def _asked(port: int) -> str:
    """Return the beginning of an answer on a connection of its own."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return connection.recv(1000).decode()
