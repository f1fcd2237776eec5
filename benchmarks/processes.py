"""`processes`: CPU time of an episode on one server and on several of one machine, and 10,000 live
sessions on two.

Both on PostgreSQL, whose CPU time counts. A crowd of agents plays on one server, on four that share
a port and a database, and on four that know nothing of each other, which tells what sharing costs
from what four processes cost that take turns on few cores. Then 10,000 sessions live on two, and
each makes a call a minute, half of which are passed on; their p99 is compared with that of as many
requests in few sessions. An agent of the crowd keeps its connection, and so its server.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from statistics import median

from benchmarks.load import PING_CONNECTIONS, Load, Sample, drive
from benchmarks.report import print_target
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
        "one server": partial(_serving, workshop, 1),
        f"{PROCESSES} that share": partial(_serving, workshop, PROCESSES),
        f"{PROCESSES} apart": partial(_serving_apart, workshop, PROCESSES),
    }
    samples: dict[str, list[Sample]] = {name: [] for name in arrangements}
    for _ in range(ROUNDS):
        for name, serve in arrangements.items():
            with serve() as load:
                samples[name].append(drive(replace(load, agents=AGENTS, seconds=seconds)))
    print(f"\nprocesses: {AGENTS} agents on PostgreSQL; CPU ms an episode, with the database's")
    costs = dict[str, float]()
    for name, rounds in samples.items():
        costs[name] = median(sum(sample.cpu_ms_per_episode.values()) for sample in rounds)
        speed = median(sample.episodes_per_second for sample in rounds)
        p99 = median(sample.p99_ms for sample in rounds)
        others = median(sample.others_share for sample in rounds)
        print(
            f"  {name:<13} {costs[name]:.2f} ms, {speed:.0f} episodes/s, p99 {p99:.0f} ms; "
            f"others {others:.0%}"
        )
    alone, shared, apart = costs
    results = [
        print_target(f"{shared}, by {base}", costs[shared] / costs[base], MAX_MORE_CPU, "x")
        for base in (alone, apart)
    ]
    return all(results) and not any(
        sample.errors for rounds in samples.values() for sample in rounds
    )


def measure_sessions(workshop: Workshop, seconds: float) -> bool:
    """Print p99 and memory with many live sessions; return whether the targets are met."""
    rate = SESSIONS / CALL_INTERVAL_SECONDS
    with _serving(workshop, SESSION_PROCESSES) as load:
        few = drive(
            replace(
                load,
                agents=PING_CONNECTIONS,
                interval_seconds=PING_CONNECTIONS / rate,
                seconds=seconds,
            )
        )
        many = drive(
            replace(
                load,
                agents=1,
                interval_seconds=1.0,
                idle_sessions=SESSIONS,
                call_interval_seconds=CALL_INTERVAL_SECONDS,
                seconds=max(seconds, CALL_INTERVAL_SECONDS),
            )
        )
    print(f"\nsessions: {SESSIONS} on {SESSION_PROCESSES} processes, {rate:.0f} calls a second")
    print(
        f"  as many requests in {PING_CONNECTIONS} sessions: p99 {few.p99_ms:.1f} ms, others "
        f"{few.others_share:.0%}"
    )
    print(
        f"  all sessions: p99 {many.ping_p99_ms:.1f} ms, others {many.others_share:.0%}; "
        f"{many.idle_session_kb:.1f} KB"
    )
    growth_kb = (many.memory_mb["server"] - few.memory_mb["server"]) * 1024
    results = [
        print_target("p99 of all by that of few", many.ping_p99_ms / few.p99_ms, MAX_GROWTH, "x"),
        print_target("a session with its calls", growth_kb / SESSIONS, MAX_SESSION_KB, "KB"),
    ]
    for sample in (few, many):
        if sample.errors:
            print(f"  {sample.errors} ERRORS, the first: {sample.first_error}")
    return all(results) and not (few.errors or many.errors)


@contextmanager
def _serving(workshop: Workshop, count: int) -> Iterator[Load]:
    """Yield a load for so many servers on one port, without its agents."""
    postgres = workshop.postgres()
    settings = {
        "DATABASE_URL": postgres.fresh(),
        "ORSWEB_PROCESSES": str(count),
        "ORSWEB_MAX_SESSIONS": str(2 * SESSIONS),
    }
    with workshop.serving([f"echo={ENV}"], settings=settings) as (port, _, pid):
        processes = {"server": pid} | ({"PostgreSQL": postgres.pid} if postgres.pid else {})
        yield Load(port=port, processes=processes, warmup_seconds=6.0)


@contextmanager
def _serving_apart(workshop: Workshop, count: int) -> Iterator[Load]:
    """Yield a load for so many servers, each with a port and a database of its own."""
    with ExitStack() as stack:
        first, *others = [stack.enter_context(_serving(workshop, 1)) for _ in range(count)]
        processes = {
            f"server {number}": other.processes["server"] for number, other in enumerate(others, 2)
        }
        yield replace(
            first,
            more_ports=tuple(other.port for other in others),
            processes={**first.processes, **processes},
        )
