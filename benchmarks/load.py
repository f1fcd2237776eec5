"""A process that puts a load on a running server and prints one Sample as JSON.

Run as `python -m benchmarks.load '<Load as JSON>'`. It also reads the CPU time and memory of the
servers, at the same moments at which it starts and stops counting.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import sys
from array import array
from dataclasses import asdict, dataclass, field

import uvloop

from benchmarks import players
from benchmarks.agents import REQUESTS_PER_EPISODE, TASKS, echoes, naps, ping, play, settle, visit
from benchmarks.client import Connection, Script, Tally
from benchmarks.meters import Reading, resident_bytes

PING_CONNECTIONS = 16
SDK_PING_SECONDS = 10.0
"""Interval at which both SDK clients ping each session."""
SETTLE_CONNECTIONS = 64


@dataclass(frozen=True)
class Load:
    """The load to put on a server; `port` and `processes` (name -> pid) are set once the server
    runs."""

    agents: int = 32
    players: int = 0
    """Number of people in browsers; if there are any, no agents play."""
    interval_seconds: float = 0.0
    """Time from one request of an agent to its next; 0: it sends the next at once."""
    text_bytes: int = 100
    nap_every: int = 0
    """One in this many agents calls `nap_tool`, which takes `nap_seconds`; 0: no agent does."""
    nap_seconds: float = 0.2
    nap_tool: str = "nap"
    """`nap` sleeps, `spin` computes."""
    tasks: int = TASKS
    """The agents take one task after another; from the first one on again after this many."""
    first_task: int = 0
    """Index of the first task that is taken."""
    stride: int = 1
    """Places from one task to the next, modulo `tasks`; a large prime makes an order that is as
    good as random."""
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
    """Latency of what is asked of idle sessions."""
    p95_ms: float = 0.0
    """Latency of the calls of `p50_ms`; with players, of their turns."""
    idle_session_kb: float = 0.0
    """Growth of the server's resident memory per idle session."""


async def run(load: Load) -> Sample:
    """Warm up, measure for `load.seconds`, and close the connections in the middle of their
    episodes."""
    tally = Tally()
    if load.players:
        return await _run_players(load, tally)
    idle_kb, sids = await _settle(load, tally) if load.idle_sessions else (0.0, [])
    connections = await _connect(load, _agents(load, tally), tally, load.interval_seconds)
    if sids:
        parts = [
            itertools.cycle(sids[first::PING_CONNECTIONS]) for first in range(PING_CONNECTIONS)
        ]
        echo = echoes(load.text_bytes)
        scripts = [
            visit(part, echo, tally) if load.call_interval_seconds else ping(part, tally)
            for part in parts
        ]
        interval = load.call_interval_seconds or SDK_PING_SECONDS
        connections += await _connect(load, scripts, tally, interval * PING_CONNECTIONS / len(sids))
    await asyncio.sleep(load.warmup_seconds)
    sample = await _measure(load, tally, idle_kb)
    for connection in connections:
        connection.close()
    return sample


async def _run_players(load: Load, tally: Tally) -> Sample:
    crowd = players.start(load.players, load.port, tally)
    await asyncio.sleep(load.warmup_seconds)
    sample = await _measure(load, tally, 0.0)
    tally.is_playing = False
    for player in crowd:
        player.cancel()
    await asyncio.wait(crowd)
    return sample


async def _measure(load: Load, tally: Tally, idle_kb: float) -> Sample:
    before = Reading.of(load.processes)
    tally.is_measuring = True
    await asyncio.sleep(load.seconds)
    tally.is_measuring = False
    spent = Reading.of(load.processes) - before
    answers = players.CALLS_PER_EPISODE if load.players else REQUESTS_PER_EPISODE
    episodes = max(tally.answered / answers, 1e-9)
    if not tally.calls:
        tally.fail("no call was answered while measuring")
    return Sample(
        episodes_per_second=episodes / spent.wall,
        p50_ms=_percentile_ms(tally.calls, 0.5),
        p99_ms=_percentile_ms(tally.calls, 0.99),
        cpu_ms_per_episode={
            name: seconds * 1000 / episodes for name, seconds in spent.watched.items()
        },
        memory_mb={name: resident_bytes(pid) / 2**20 for name, pid in load.processes.items()},
        load_share=spent.own_share,
        others_share=spent.others_share,
        errors=tally.errors,
        first_error=tally.first_error,
        p95_ms=_percentile_ms(tally.calls, 0.95),
        ping_p99_ms=_percentile_ms(tally.pings, 0.99),
        idle_session_kb=idle_kb,
    )


async def _settle(load: Load, tally: Tally) -> tuple[float, list[bytes]]:
    """Open the idle sessions; return the KB of server memory per session, and their ids.

    Agents play before that, so that memory which every load needs is not counted for the sessions.
    """
    agents = await _connect(load, _agents(load, tally), tally)
    await asyncio.sleep(load.warmup_seconds)
    tally.is_playing = False
    await _all_ended(agents)
    tally.is_playing = True
    before, sids = _server_bytes(load), list[bytes]()
    each = load.idle_sessions // SETTLE_CONNECTIONS + 1
    await _all_ended(
        await _connect(load, [settle(each, sids, tally) for _ in range(SETTLE_CONNECTIONS)], tally)
    )
    return (_server_bytes(load) - before) / 1024 / len(sids), sids


def _agents(load: Load, tally: Tally) -> list[Script]:
    echo, nap = echoes(load.text_bytes), naps(load.nap_tool, load.nap_seconds)
    indexes = (load.first_task + number * load.stride % load.tasks for number in itertools.count())
    return [
        play(nap, tally.naps, tally, indexes)
        if _naps(load, number)
        else play(echo, tally.calls, tally, indexes)
        for number in range(load.agents)
    ]


def _naps(load: Load, number: int) -> bool:
    return bool(load.nap_every) and number % load.nap_every == 0


async def _connect(
    load: Load, scripts: list[Script], tally: Tally, interval: float = 0.0
) -> list[Connection]:
    loop = asyncio.get_running_loop()
    connections: list[Connection] = []
    for script, port in zip(scripts, itertools.cycle((load.port, *load.more_ports)), strict=False):
        connection = Connection(script, tally, interval)
        await loop.create_connection(lambda made=connection: made, "127.0.0.1", port)  # type: ignore[misc]
        connections.append(connection)
    return connections


async def _all_ended(connections: list[Connection]) -> None:
    await asyncio.wait_for(
        asyncio.gather(*(connection.ended.wait() for connection in connections)), 120
    )


def _server_bytes(load: Load) -> int:
    return resident_bytes(load.processes["server"])


def _percentile_ms(durations: array[float], share: float) -> float:
    ordered = sorted(durations)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] * 1000 if ordered else 0.0


if __name__ == "__main__":
    # a garbage collection would add to the measured latency
    gc.disable()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(json.dumps(asdict(runner.run(run(Load(**json.loads(sys.argv[1])))))))
