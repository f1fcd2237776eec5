"""A process that puts a load on a running server and prints one Sample as JSON.

Run as `python -m benchmarks.load '<Load as JSON>'`. It also reads the CPU time and memory of the
servers, at the same moments at which it starts and stops counting.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import subprocess
import sys
from array import array
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

import uvloop

from benchmarks import sdk_clients
from benchmarks.agents import REQUESTS_PER_EPISODE, TASKS, echoes, naps, ping, play, settle, visit
from benchmarks.client import Connection, Script, Tally
from benchmarks.meters import Reading, resident_bytes
from benchmarks.sdk_clients import SDK
from benchmarks.servers import ROOT

PING_CONNECTIONS, SETTLE_CONNECTIONS = 16, 64
SDK_PING_SECONDS = 10.0
"""Interval at which both SDK clients ping each session."""
END_SECONDS = 120.0


@dataclass(frozen=True)
class Load:
    """The load to put on a server; `port` and `processes` (name -> pid) are set once the server
    runs."""

    agents: int = 32
    interval_seconds: float = 0.0
    """Time from one request of an agent to its next; 0: it sends the next at once."""
    by_content: bool = False
    """Whether agents name tasks by their content, not by split and index."""
    sdk: SDK | None = None
    """The SDK whose client plays; None: one that sends the same bytes and is much cheaper."""
    text_bytes: int = 100
    nap_every: int = 0
    """One in this many agents calls `nap_tool`, which takes `nap_seconds`; 0: no agent does."""
    nap_seconds: float = 0.2
    nap_tool: str = "nap"
    """`nap` sleeps, `spin` computes."""
    idle_sessions: int = 0
    """Sessions that are opened before the agents start, and only pinged, as often as the SDKs do,
    or only called."""
    call_interval_seconds: float = 0.0
    """Time from one call of such a session to its next; 0: they are pinged."""
    warmup_seconds: float = 3.0
    """Time in which the follower's process loads its code, too."""
    seconds: float = 5.0
    port: int = 0
    more_ports: tuple[int, ...] = ()
    """Ports of further servers: agents connect to one server after the other."""
    processes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Sample:
    """Measurements of one server under one load. `p50_ms` and `p99_ms` are the latencies of calls
    of `echo`."""

    episodes_per_second: float
    """Answered requests divided by the requests of an episode, so that unfinished episodes count in
    part."""
    p50_ms: float
    p99_ms: float
    cpu_ms_per_episode: dict[str, float]
    """User and system time of each watched process, including its threads and children."""
    memory_mb: dict[str, float]
    """Resident memory of each watched process at the end."""
    load_share: float
    """CPU time of the load process divided by wall time; near 1, the load is the limit, not the
    server."""
    others_share: float
    """CPU time of other programs divided by wall time and cores; above 0.1, the results cannot be
    trusted."""
    errors: int
    first_error: str
    ping_p99_ms: float = 0.0
    """Latency of the requests in idle sessions."""
    p95_ms: float = 0.0
    """Latency of the calls of `p50_ms`."""
    idle_session_kb: float = 0.0
    """Growth of the server's resident memory per idle session."""


def drive(load: Load) -> Sample:
    """Run a load process and return its Sample."""
    command = [sys.executable, "-m", "benchmarks.load", json.dumps(asdict(load))]
    timeout = load.warmup_seconds + load.seconds + 180
    answer = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, timeout=timeout)
    return Sample(**json.loads(answer.stdout))


async def run(load: Load) -> Sample:
    """Warm up, measure for `load.seconds`, and close the connections in the middle of their
    episodes."""
    tally = Tally()
    if load.sdk:
        return await _with_clients(load, load.sdk, tally)
    idle_kb, sids = await _settle(load, tally) if load.idle_sessions else (0.0, [])
    connections = await connect(
        _agents(load, tally), tally, load.port, *load.more_ports, interval=load.interval_seconds
    )
    if sids:
        interval = load.call_interval_seconds or SDK_PING_SECONDS
        interval *= PING_CONNECTIONS / len(sids)
        scripts = _idle_scripts(load, sids, tally)
        connections += await connect(scripts, tally, load.port, *load.more_ports, interval=interval)
    sample = await _measure(load, tally, idle_kb)
    for connection in connections:
        connection.close()
    return sample


async def _with_clients(load: Load, sdk: SDK, tally: Tally) -> Sample:
    threads = sdk_clients.start(sdk, load.agents, load.port, load.text_bytes, tally)
    sample = await _measure(load, tally, 0.0)
    tally.is_playing = False
    for thread in threads:
        await asyncio.to_thread(thread.join, END_SECONDS)
    return sample


async def connect(
    scripts: Sequence[Script], tally: Tally, *ports: int, interval: float = 0.0
) -> list[Connection]:
    """Play each script over a connection of its own, at one port after the other."""
    loop = asyncio.get_running_loop()
    connections = [Connection(script, tally, interval) for script in scripts]
    for connection, port in zip(connections, itertools.cycle(ports), strict=False):
        await loop.create_connection(lambda protocol=connection: protocol, "127.0.0.1", port)  # type: ignore[misc]
    return connections


async def all_ended(connections: Sequence[Connection]) -> None:
    async with asyncio.timeout(END_SECONDS):
        for connection in connections:
            await connection.ended.wait()


def _agents(load: Load, tally: Tally) -> list[Script]:
    echo, nap = echoes(load.text_bytes), naps(load.nap_tool, load.nap_seconds)
    indexes = itertools.cycle(range(TASKS))
    return [
        play(nap, tally.naps, tally, indexes, by_content=load.by_content)
        if load.nap_every and number % load.nap_every == 0
        else play(echo, tally.calls, tally, indexes, by_content=load.by_content)
        for number in range(load.agents)
    ]


async def _settle(load: Load, tally: Tally) -> tuple[float, list[bytes]]:
    """Open the idle sessions; return the KB of server memory per session, and their ids.

    Agents play before that, so that memory which every load needs is not counted for the sessions.
    """
    agents = await connect(_agents(load, tally), tally, load.port)
    await asyncio.sleep(load.warmup_seconds)
    tally.is_playing = False
    await all_ended(agents)
    tally.is_playing = True
    before, sids = resident_bytes(load.processes["server"]), list[bytes]()
    count = load.idle_sessions // SETTLE_CONNECTIONS + 1
    scripts = [settle(count, sids, tally) for _ in range(SETTLE_CONNECTIONS)]
    await all_ended(await connect(scripts, tally, load.port, *load.more_ports))
    growth = resident_bytes(load.processes["server"]) - before
    return growth / 1024 / len(sids), sids


def _idle_scripts(load: Load, sids: Sequence[bytes], tally: Tally) -> list[Script]:
    parts = [itertools.cycle(sids[first::PING_CONNECTIONS]) for first in range(PING_CONNECTIONS)]
    if load.call_interval_seconds:
        bodies = echoes(load.text_bytes)
        return [visit(part, bodies, tally) for part in parts]
    return [ping(part, tally) for part in parts]


async def _measure(load: Load, tally: Tally, idle_kb: float) -> Sample:
    await asyncio.sleep(load.warmup_seconds)
    before = Reading.of(load.processes)
    tally.is_measuring = True
    await asyncio.sleep(load.seconds)
    tally.is_measuring = False
    cost = Reading.of(load.processes) - before
    episodes = max(tally.answered / REQUESTS_PER_EPISODE, 1e-9)
    if not tally.calls:
        tally.fail("no call was answered while measuring")
    return Sample(
        episodes_per_second=episodes / cost.wall,
        p50_ms=_percentile_ms(tally.calls, 0.5),
        p99_ms=_percentile_ms(tally.calls, 0.99),
        cpu_ms_per_episode={
            name: seconds * 1000 / episodes for name, seconds in cost.watched.items()
        },
        memory_mb={name: resident_bytes(pid) / 2**20 for name, pid in load.processes.items()},
        load_share=cost.own_share,
        others_share=cost.others_share,
        errors=tally.errors,
        first_error=tally.first_error,
        p95_ms=_percentile_ms(tally.calls, 0.95),
        ping_p99_ms=_percentile_ms(tally.pings, 0.99),
        idle_session_kb=idle_kb,
    )


def _percentile_ms(durations: array[float], share: float) -> float:
    values = sorted(durations)
    return values[min(int(len(values) * share), len(values) - 1)] * 1000 if values else 0.0


if __name__ == "__main__":
    # a garbage collection would add to the measured latency
    gc.disable()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(json.dumps(asdict(runner.run(run(Load(**json.loads(sys.argv[1])))))))
