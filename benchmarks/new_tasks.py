"""A class with a million tasks: CPU seconds of its first and second start, and of a first pass over
the tasks."""

from __future__ import annotations

import http.client
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from benchmarks.load import Load, Sample
from benchmarks.meters import Reading
from benchmarks.scenarios import drive
from benchmarks.servers import Workshop

TASKS = 1_000_000
PLAYED = 100
ROUNDS = 3
"""How often new tasks and played ones are played in turn."""
ENVIRONMENT = "echo=benchmarks.echo:ManyTasks"
MAX_FIRST_START, MAX_SECOND_START = 45.0, 2.0
"""CPU seconds beyond those of a server with 100 tasks."""
MAX_SHARE = 0.1
"""How much more an episode of a new task may cost than one of a task that was played."""


def measure(workshop: Workshop, seconds: float) -> bool:
    """Print the figures; return whether they meet their targets and nothing failed."""
    with workshop.serving(["echo=benchmarks.echo:Echo"]) as (_, _, pid):
        usual = _cpu_seconds(pid)
    with workshop.serving([ENVIRONMENT]) as (_, directory, pid):
        first = _cpu_seconds(pid) - usual
    with workshop.serving([ENVIRONMENT], directory) as (port, _, pid):
        second = _cpu_seconds(pid) - usual
        _wait_for_pages(port)
        load = Load(seconds=seconds, port=port, processes={"server": pid}, tasks=PLAYED)
        # until the follower's process has loaded its code, which takes over a second of CPU
        drive(load)
        new, played = list[Sample](), list[Sample]()
        for number in range(1, ROUNDS + 1):
            new.append(
                drive(
                    replace(
                        load, first_task=number * TASKS // (ROUNDS + 1), tasks=TASKS // (ROUNDS + 1)
                    )
                )
            )
            played.append(drive(load))
    share = _cpu_ms(new) / _cpu_ms(played) - 1
    met = [first <= MAX_FIRST_START, second <= MAX_SECOND_START, share <= MAX_SHARE]
    print(f"\nnew_tasks: a class with {TASKS:,} tasks")
    print(
        f"  {_verdict(met[0])}  first start: {first:.1f} CPU s (target: at most "
        f"{MAX_FIRST_START:g})"
    )
    print(
        f"  {_verdict(met[1])}  second start: {second:.1f} CPU s (target: at most "
        f"{MAX_SECOND_START:g})"
    )
    cost = f"{_cpu_ms(new):.2f} CPU ms an episode, played ones {_cpu_ms(played):.2f}"
    print(
        f"  {_verdict(met[2])}  never played: {cost}, {share:+.0%} (target: at most "
        f"{MAX_SHARE:+.0%})"
    )
    return all(met) and not any(sample.errors for sample in (*new, *played))


def _wait_for_pages(port: int) -> None:
    """Open a page. After a start, the server loads the code of its pages, which takes a second of
    CPU."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/")
    connection.getresponse().read()
    connection.close()


def _cpu_ms(samples: Sequence[Sample]) -> float:
    return median(sample.cpu_ms_per_episode["server"] for sample in samples)


def _cpu_seconds(pid: int) -> float:
    return Reading.of({"server": pid}).watched["server"]


def _verdict(is_met: bool) -> str:
    return "PASS" if is_met else "FAIL"
