"""Reloading a server while somebody visits it, with a module whose code changes."""

from __future__ import annotations

import http.client
import json
import threading
import urllib.request
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
"""


def write(here: Path, version: str, first: str = "pass") -> None:
    """Write the module `changing_env` into `here`; `first`: a statement that runs when tasks are listed."""
    (here / "changing_env.py").write_text(ENVIRONMENT.replace("{version}", version).replace("{first}", first))


def ready_since(server: LiveServer) -> list[float]:
    """Return when the servers that run now became ready; it changes when a reload is over."""
    return [json.loads(path.read_text())["at"] for path in server.data_dir.rglob("serve.json")]


def reload(server: LiveServer) -> tuple[int, str]:
    """Run `manage.py reload`; return its status and what it printed."""
    environment = {name: value for name, value in server.env.items() if not name.startswith("PYTHON")}  # starts warm
    done = programs.run("reload", env=environment)
    return done.returncode, done.stdout + done.stderr


@contextmanager
def visited(server: LiveServer, pause_seconds: float = 0.01) -> Iterator[list[str]]:
    """Open one connection after another, with pauses; yields what went wrong."""
    problems: list[str] = []
    is_over = threading.Event()

    def visit() -> None:
        while not is_over.wait(pause_seconds):
            try:
                urllib.request.urlopen(f"{server.url}/health", timeout=30).close()  # a tenth of what httpx takes
            except (OSError, http.client.HTTPException) as error:
                problems.append(repr(error))

    visitor = threading.Thread(target=visit)
    visitor.start()
    yield problems
    is_over.set()
    visitor.join()
