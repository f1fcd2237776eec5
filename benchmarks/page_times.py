"""Server time of pages, requested with Django's test client in this process, including middleware
and templates.

The wall time and the CPU time are printed; the latter includes the database's backend if that runs
on this machine. Other programs lengthen the wall time, but hardly affect the CPU time. For the
comparison with the targets, times may be divided by the machine's slowness (`scenarios.py`); the
printed figures are those of this machine. Used by `dashboard.py` and `task_list.py`.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import Any

from benchmarks.pages import Subject
from benchmarks.scenarios import slowness_now

_HEADINGS = f"{'':<36}{'p50 ms':>8}{'p95 ms':>8}{'CPU p50':>9}{'CPU p95':>9}{'KB':>6}{'queries':>9}"


@dataclass(frozen=True, slots=True)
class Times:
    """The times of all requests of a page in milliseconds, sorted."""

    wall: Sequence[float]
    cpu: Sequence[float]
    unfinished: int
    """Number of requests whose page shows only the results found so far."""

    @staticmethod
    def p50(values: Sequence[float]) -> float:
        return values[len(values) // 2]

    @staticmethod
    def p95(values: Sequence[float]) -> float:
        return quantiles(values, n=20, method="inclusive")[18]


def slowness(*, is_scaled: bool) -> float:
    """Return the factor by which this machine is slower than the one of the targets; 1.0 unless
    `is_scaled`."""
    if not is_scaled:
        return 1.0
    factor = slowness_now()
    print(
        f"this machine is {factor:.1f} times slower than that of the targets; times are scaled",
        flush=True,
    )
    return factor


def measure(
    subjects: Sequence[Subject], repeat: int, *, by_cpu: bool, slowness: float = 1.0
) -> tuple[bool, bool]:
    """Print a line for each page. Returns whether every response was right, and whether every
    target was met."""
    from django.test import Client

    client = Client(SERVER_NAME="127.0.0.1", raise_request_exception=False)
    for subject in subjects:
        client.get(subject.url(0))
    # as `serve` does after its start
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)
    print(f"\n{_HEADINGS}")
    verdicts = []
    for subject in subjects:
        verdicts.append(_print_subject(client, subject, repeat, by_cpu=by_cpu, slowness=slowness))
        sys.stdout.flush()
    return all(right for right, _ in verdicts), all(met for _, met in verdicts)


def _print_subject(
    client: Any, subject: Subject, repeat: int, *, by_cpu: bool, slowness: float
) -> tuple[bool, bool]:
    first = client.get(subject.url(0))
    if first.status_code != 200:
        print(f"{subject.name:<36}  {first.status_code} for {subject.url(0)}")
        return False, False
    times = _times(client, subject, repeat)
    p95 = Times.p95(times.cpu if by_cpu else times.wall) / slowness
    is_met = p95 <= subject.target_ms
    verdict = "PASS" if is_met else f"FAIL  (target {subject.target_ms:g} ms)"
    figures = [
        Times.p50(times.wall),
        Times.p95(times.wall),
        Times.p50(times.cpu),
        Times.p95(times.cpu),
    ]
    columns = "".join(
        f"{value:>{width}.1f}" for value, width in zip(figures, (8, 8, 9, 9), strict=True)
    )
    size, queries = len(_content(first)) / 1024, _queries(client, subject.url(1))
    note = (
        f"  {times.unfinished} of {repeat} show only the results found so far"
        if times.unfinished
        else ""
    )
    print(f"{subject.name:<36}{columns}{size:>6.0f}{queries:>9}  {verdict}{note}")
    return True, is_met


def _times(client: Any, subject: Subject, repeat: int) -> Times:
    """Return the times of `repeat` requests, each with another URL."""
    cpu_ms = _cpu_meter()
    walls, cpus, unfinished = [], [], 0
    for number in range(1, repeat + 1):
        url = subject.url(number)
        started, cpu = time.perf_counter(), cpu_ms()
        content = _content(client.get(url))
        walls.append((time.perf_counter() - started) * 1000)
        cpus.append(cpu_ms() - cpu)
        unfinished += bool(subject.unfinished) and subject.unfinished in content
    return Times(sorted(walls), sorted(cpus), unfinished)


def _cpu_meter() -> Callable[[], float]:
    """Return a function that returns `cpu_seconds` in milliseconds, for a new database connection
    that stays open."""
    from django.db import connection

    connection.close()  # the test client keeps the connection that is opened now
    connection.ensure_connection()
    return lambda: cpu_seconds() * 1000


def cpu_seconds() -> float:
    """Return the CPU time of this process up to now, and of its PostgreSQL backend if that runs on
    this machine."""
    from django.db import connection

    seconds = time.process_time()
    if connection.vendor == "postgresql" and connection.connection is not None:
        backend = Path(f"/proc/{connection.connection.info.backend_pid}/schedstat")
        seconds += int(backend.read_text().split()[0]) / 1e9 if backend.exists() else 0.0
    return seconds


def _content(response: Any) -> bytes:
    return b"".join(response.streaming_content) if response.streaming else bytes(response.content)


def _queries(client: Any, url: str) -> int:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as queries:
        client.get(url)
    return len(queries)
