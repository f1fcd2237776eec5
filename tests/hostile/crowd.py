"""Many agents that play episode after episode at the pace of a model, and what is seen of the
server meanwhile."""

from __future__ import annotations

import asyncio
import itertools
from array import array
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from statistics import mean

from benchmarks.agents import TASKS, echoes, play
from benchmarks.client import Connection, Script, Tally
from benchmarks.meters import resident_bytes
from tests.server import LiveServer

TEXT_BYTES = 200


@dataclass(frozen=True)
class Window:
    """What was seen in some seconds: times of calls, and the server's memory at the end."""

    calls: int
    p50_ms: float
    p99_ms: float
    memory_bytes: int


class Crowd:
    """Agents of `benchmarks.echo:Echo`. `tally` counts what they were answered."""

    def __init__(self, server: LiveServer) -> None:
        self.server, self.tally = server, Tally(is_measuring=True)
        self._seen = 0

    async def window(self, seconds: float) -> Window:
        """Return what is seen in the next `seconds`."""
        await asyncio.sleep(seconds)
        first, self._seen = self._seen, len(self.tally.calls)
        calls = self.tally.calls[first : self._seen]
        memory = await asyncio.to_thread(resident_bytes, self.server.pid)
        return Window(len(calls), percentile_ms(calls, 0.5), percentile_ms(calls, 0.99), memory)


@asynccontextmanager
async def crowd(
    server: LiveServer, agents: int, pace_seconds: float, key: str = ""
) -> AsyncIterator[Crowd]:
    """Let so many agents play within the block. Each sends a request every `pace_seconds`, or when
    it was answered."""
    made = Crowd(server)
    bodies, indexes = echoes(TEXT_BYTES), itertools.cycle(range(TASKS))
    connections = []
    for _ in range(agents):
        script = _with_key(play(bodies, made.tally.calls, made.tally, indexes), key)
        connection = Connection(script, made.tally, pace_seconds)
        await asyncio.get_running_loop().create_connection(
            lambda connection=connection: connection,  # type: ignore[misc]  # bound now, called now
            "127.0.0.1",
            server.port,
        )
        connections.append(connection)
        await asyncio.sleep(pace_seconds / agents)
    try:
        yield made
    finally:
        for connection in connections:
            connection.close()


def _with_key(script: Script, key: str) -> Script:
    """Send the requests of an endless script with an API key."""
    header = b"\r\nX-API-Key: " + key.encode() + b"\r\nHost:"
    request = next(script)
    while True:
        request = script.send((yield request.replace(b"\r\nHost:", header, 1)))


def percentile_ms(durations: Sequence[float] | array[float], share: float) -> float:
    ordered = sorted(durations)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] * 1000 if ordered else 0.0


def growth(windows: Sequence[Window]) -> float:
    """Return how much memory grew from the first third of the windows to the last, 0.05 for five
    percent."""
    third = max(1, len(windows) // 3)
    first = mean(one.memory_bytes for one in windows[:third])
    return mean(one.memory_bytes for one in windows[-third:]) / first - 1
