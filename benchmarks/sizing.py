"""`python -m benchmarks sizing`: what sessions, environments and episodes cost, for the table in
docs/scale.md.

The figures are the server's own, of `/metrics`, and the sizes of its files.
"""

from __future__ import annotations

import argparse
import http.client
import json
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.servers import Workshop

AGENTS = 16
CALLS = 5
TEXT = "x" * 200
SERVED = {
    "benchmarks.echo:Echo": "native, async tools",
    "benchmarks.echo_ors:Echo": "`ors` class, plain tools",
}


@dataclass(frozen=True)
class ServerFigures:
    memory_bytes: float
    cpu_seconds: float
    database_bytes: int

    @classmethod
    def of(cls, port: int, directory: Path) -> ServerFigures:
        text = _ask(http.client.HTTPConnection("127.0.0.1", port, timeout=60), "GET", "/metrics")
        values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        files = directory.glob("orsweb.sqlite3*")
        return cls(
            float(values["process_resident_memory_bytes"]),
            float(values["process_cpu_seconds_total"]),
            sum(file.stat().st_size for file in files),
        )


def main(arguments: Sequence[str]) -> int:
    """Print the table. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks sizing", description=__doc__)
    parser.add_argument("--sessions", type=int, default=2000, help="idle sessions that are opened")
    parser.add_argument("--episodes", type=int, default=1600, help="episodes that are played")
    options = parser.parse_args(arguments)
    with Workshop() as workshop:
        bundled = _idle_memory(workshop, [])
        for served, name in SERVED.items():
            with workshop.serving([served]) as (port, directory, _):
                idle = ServerFigures.of(port, directory)
                _in_parallel(port, options.sessions, is_played=False)
                held = ServerFigures.of(port, directory)
                per_session = (held.memory_bytes - idle.memory_bytes) / options.sessions
                print(
                    f"{name}: {idle.memory_bytes / 1e6:.0f} MB idle, {per_session / 1e3:.1f} KB "
                    "a session"
                )
            with workshop.serving([served]) as (port, directory, _):
                _in_parallel(port, AGENTS, is_played=True)
                before = ServerFigures.of(port, directory)
                _in_parallel(port, options.episodes, is_played=True)
                _print_episodes(before, ServerFigures.of(port, directory), options.episodes)
        print(f"the seven bundled environments: {bundled / 1e6:.0f} MB idle")
    return 0


def _print_episodes(before: ServerFigures, after: ServerFigures, episodes: int) -> None:
    cpu = (after.cpu_seconds - before.cpu_seconds) / episodes
    size = (after.database_bytes - before.database_bytes) / episodes
    print(
        f"  {1e3 * cpu:.2f} CPU ms and {size / 1e3:.1f} KB on SQLite an episode of {CALLS} "
        f"calls, {AGENTS} agents"
    )


def _idle_memory(workshop: Workshop, served: list[str]) -> float:
    with workshop.serving(served) as (port, directory, _):
        return ServerFigures.of(port, directory).memory_bytes


def _in_parallel(port: int, episodes: int, *, is_played: bool) -> None:
    share = [len(range(start, episodes, AGENTS)) for start in range(AGENTS)]
    with ThreadPoolExecutor(AGENTS) as agents:
        list(agents.map(lambda count: _play(port, count, is_played=is_played), share))


def _play(port: int, episodes: int, *, is_played: bool) -> None:
    """Open sessions one after the other, and leave them open unless they are played to their
    end."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    for _ in range(episodes):
        session = {"X-Session-ID": uuid.uuid4().hex}
        _ask(connection, "POST", "/create", {"split": "train", "index": 0}, session)
        for _ in range(CALLS if is_played else 0):
            _ask(connection, "POST", "/call", {"name": "echo", "input": {"text": TEXT}}, session)
        if is_played:
            _ask(connection, "POST", "/delete", {}, session)
    connection.close()


def _ask(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: object = None,
    headers: dict[str, str] | None = None,
) -> str:
    content = json.dumps(body) if body is not None else None
    connection.request(
        method, path, content, {"Content-Type": "application/json", **(headers or {})}
    )
    answer = connection.getresponse()
    text = answer.read().decode()
    if answer.status != 200:
        raise RuntimeError(f"{method} {path}: {answer.status} {text[:200]}")
    return text
