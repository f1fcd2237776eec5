"""`processes`: CPU time of an episode on one server and on several of one machine, and 10,000 live
sessions on two.

Both on PostgreSQL, whose CPU time counts. A crowd of agents plays on one server, on four that share
a port and a database, and on four that know nothing of each other, which tells what sharing costs
from what four processes cost that take turns on few cores. Then 10,000 sessions live on two, and
each makes a call a minute, half of which are passed on; their p99 is compared with that of as many
requests in few sessions. An agent of the crowd keeps its connection, and so its server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
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
    """Print what an episode costs on several processes; return whether the targets are met."""
    arrangements = {
        "one server": partial(_served, workshop, 1),
        f"{PROCESSES} that share": partial(_served, workshop, PROCESSES),
        f"{PROCESSES} apart": partial(_apart, workshop, PROCESSES),
    }
    found: dict[str, list[Sample]] = {name: [] for name in arrangements}
    for _ in range(ROUNDS):
        for name, arranged in arrangements.items():
            with arranged() as load:
                found[name].append(drive(replace(load, agents=AGENTS, seconds=seconds)))
    print(f"\nprocesses: {AGENTS} agents on PostgreSQL; CPU ms an episode, with the database's")
    costs = {
        name: median(sum(one.cpu_ms_per_episode.values()) for one in samples)
        for name, samples in found.items()
    }
    for name, samples in found.items():
        speed, p99 = (
            median(one.episodes_per_second for one in samples),
            median(one.p99_ms for one in samples),
        )
        others = median(one.others_share for one in samples)
        print(
            f"  {name:<13} {costs[name]:.2f} ms, {speed:.0f} episodes/s, p99 {p99:.0f} ms; "
            f"others {others:.0%}"
        )
    one, shared, apart = costs.values()
    for name, more in {"one server": shared / one, f"{PROCESSES} apart": shared / apart}.items():
        word = "PASS" if more <= MAX_MORE_CPU else "FAIL"
        print(f"  {word}  {PROCESSES} that share: {more:.2f} times {name} (target: {MAX_MORE_CPU})")
    errors = sum(sample.errors for samples in found.values() for sample in samples)
    return max(shared / one, shared / apart) <= MAX_MORE_CPU and not errors


def measure_sessions(workshop: Workshop, seconds: float) -> bool:
    """Print p99 and memory with many live sessions; return whether the targets are met."""
    rate = SESSIONS / CALL_INTERVAL_SECONDS
    with _served(workshop, SESSION_PROCESSES) as load:
        quiet = drive(
            replace(
                load,
                agents=PING_CONNECTIONS,
                interval_seconds=PING_CONNECTIONS / rate,
                seconds=seconds,
            )
        )
        lived = replace(load, agents=1, interval_seconds=1.0, idle_sessions=SESSIONS)
        held = drive(
            replace(
                lived,
                call_interval_seconds=CALL_INTERVAL_SECONDS,
                seconds=max(seconds, CALL_INTERVAL_SECONDS),
            )
        )
    print(
        f"\nsessions: {SESSIONS} on {SESSION_PROCESSES} processes, {rate:.0f} calls a second "
        "together"
    )
    print(
        f"  as many requests in {PING_CONNECTIONS} sessions: p99 {quiet.p99_ms:.1f} ms, others "
        f"{quiet.others_share:.0%}"
    )
    print(
        f"  all sessions: p99 {held.ping_p99_ms:.1f} ms, others {held.others_share:.0%}; "
        f"{held.idle_session_kb:.1f} KB"
    )
    targets = {"p99, times": (held.ping_p99_ms / quiet.p99_ms, MAX_GROWTH)}
    growth = held.memory_mb["server"] - quiet.memory_mb["server"]
    targets["KB of a session with its calls"] = growth * 1024 / SESSIONS, MAX_SESSION_KB
    for name, (value, bound) in targets.items():
        print(
            f"  {'PASS' if value <= bound else 'FAIL'}  {name}: {value:.1f} (target: at most "
            f"{bound:g})"
        )
    for one in (quiet, held):
        if one.errors:
            print(f"  {one.errors} errors, the first: {one.first_error}")
    return not (quiet.errors or held.errors) and all(
        value <= bound for value, bound in targets.values()
    )


@contextmanager
def _apart(workshop: Workshop, count: int) -> Iterator[Load]:
    """Yield a load for so many servers, each with a port and a database of its own."""
    with ExitStack() as stack:
        first, *others = [stack.enter_context(_served(workshop, 1)) for _ in range(count)]
        processes = {
            f"server {number}": one.processes["server"] for number, one in enumerate(others, 2)
        }
        yield replace(
            first,
            more_ports=tuple(other.port for other in others),
            processes={**first.processes, **processes},
        )


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
