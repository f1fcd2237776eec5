"""`processes`: CPU time of an episode on one server and on several of one machine, and 10,000 live sessions on two.

Both on PostgreSQL, whose CPU time counts. A crowd of agents plays on one server and on four that share a port. Then
10,000 sessions live on two, and each makes a call a minute, half of which are passed on; their p99 is compared with
that of as many requests in few sessions. An agent of the crowd keeps its connection, and so its server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from statistics import median

from benchmarks.load import PING_CONNECTIONS, Load, Sample
from benchmarks.scenarios import drive
from benchmarks.servers import ENV, Workshop

AGENTS, PROCESSES = 128, 4
MAX_MORE_CPU = 1.15
SESSIONS, SESSION_PROCESSES = 10_000, 2
CALL_INTERVAL_SECONDS = 60.0
MAX_GROWTH = 5.0
MAX_SESSION_KB = 8.0
ROUNDS = 2


def measure(workshop: Workshop, seconds: float) -> bool:
    """Print what an episode costs on several processes; return whether the target is met."""
    found: dict[int, list[Sample]] = {1: [], PROCESSES: []}
    for _ in range(ROUNDS):
        for count, samples in found.items():
            with _served(workshop, count) as load:
                samples.append(drive(replace(load, agents=AGENTS, seconds=seconds)))
    print(f"\nprocesses: {AGENTS} agents on PostgreSQL; CPU ms an episode, with the database's")
    costs = {count: median(sum(one.cpu_ms_per_episode.values()) for one in samples) for count, samples in found.items()}
    for count, samples in found.items():
        speed, p99 = median(one.episodes_per_second for one in samples), median(one.p99_ms for one in samples)
        others = median(one.others_share for one in samples)
        print(
            f"  {count}: {costs[count]:.2f} ms, {speed:.0f} episodes/s, p99 {p99:.0f} ms; other programs {others:.0%}"
        )
    more = costs[PROCESSES] / costs[1]
    met = more <= MAX_MORE_CPU
    print(f"  {'PASS' if met else 'FAIL'}  {PROCESSES} processes: {more:.2f} times one (target: {MAX_MORE_CPU})")
    return met and not any(one.errors for samples in found.values() for one in samples)


def measure_sessions(workshop: Workshop, seconds: float) -> bool:
    """Print p99 and memory with many live sessions; return whether the targets are met."""
    rate = SESSIONS / CALL_INTERVAL_SECONDS
    with _served(workshop, SESSION_PROCESSES) as load:
        quiet = drive(replace(load, agents=PING_CONNECTIONS, interval_seconds=PING_CONNECTIONS / rate, seconds=seconds))
        lived = replace(load, agents=1, interval_seconds=1.0, idle_sessions=SESSIONS)
        held = drive(
            replace(lived, call_interval_seconds=CALL_INTERVAL_SECONDS, seconds=max(seconds, CALL_INTERVAL_SECONDS))
        )
    print(f"\nsessions: {SESSIONS} on {SESSION_PROCESSES} processes, {rate:.0f} calls a second together")
    print(
        f"  as many requests in {PING_CONNECTIONS} sessions: p99 {quiet.p99_ms:.1f} ms, others {quiet.others_share:.0%}"
    )
    print(
        f"  all sessions: p99 {held.ping_p99_ms:.1f} ms, others {held.others_share:.0%}; {held.idle_session_kb:.1f} KB"
    )
    targets = {"p99, times": (held.ping_p99_ms / quiet.p99_ms, MAX_GROWTH)}
    growth = held.memory_mb["server"] - quiet.memory_mb["server"]
    targets["KB of a session with its calls"] = growth * 1024 / SESSIONS, MAX_SESSION_KB
    for name, (value, bound) in targets.items():
        print(f"  {'PASS' if value <= bound else 'FAIL'}  {name}: {value:.1f} (target: at most {bound:g})")
    for one in (quiet, held):
        if one.errors:
            print(f"  {one.errors} errors, the first: {one.first_error}")
    return not (quiet.errors or held.errors) and all(value <= bound for value, bound in targets.values())


@contextmanager
def _served(workshop: Workshop, count: int) -> Iterator[Load]:
    """Yield a load for so many servers on one port, with nothing to do."""
    postgres = workshop.postgres()
    settings: Mapping[str, str] = {
        "DATABASE_URL": postgres.fresh(),
        "ORSWEB_PROCESSES": str(count),
        "ORSWEB_MAX_SESSIONS": str(2 * SESSIONS),
    }
    with workshop.serving([f"echo={ENV}"], settings=settings) as (port, _, pid):
        processes = {"server": pid} | ({"PostgreSQL": postgres.pid} if postgres.pid else {})
        yield Load(port=port, processes=processes, warmup_seconds=6.0)
