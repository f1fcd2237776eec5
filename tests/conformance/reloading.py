"""Reloading a server while somebody visits it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from tests import programs
from tests.server import LiveServer


def reload(server: LiveServer) -> tuple[int, str]:
    """Run `manage.py reload`; return its status and what it printed."""
    done = programs.run("reload", env=server.env)
    return done.returncode, done.stdout + done.stderr


@contextmanager
def visited(server: LiveServer) -> Iterator[list[str]]:
    """Open one connection after another; yields what went wrong."""
    problems: list[str] = []
    is_over = threading.Event()

    def visit() -> None:
        while not is_over.wait(0.01):
            try:
                httpx.get(f"{server.url}/health", timeout=30).raise_for_status()
            except httpx.HTTPError as error:
                problems.append(repr(error))

    visitor = threading.Thread(target=visit)
    visitor.start()
    yield problems
    is_over.set()
    visitor.join()
