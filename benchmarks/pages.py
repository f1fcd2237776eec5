"""Server time of pages, asked through Django's test client in this process, middleware and templates included.

Each page is asked some times with other values, the first of them left out. What counts is the CPU that this thread and
the PostgreSQL process behind it took: the time of an answer on a quiet machine whose database is in memory. (Where that
process is out of sight, on another machine or another system than Linux, it is the time that passed.) Used by
`dashboard.py` and `task_list.py`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import Any


@dataclass(frozen=True, slots=True)
class Subject:
    """One view. `url` of the try's number, so that no two tries need ask for the same."""

    name: str
    url: Callable[[int], str]
    target_ms: float
    """Of the 95th percentile."""
    unfinished: bytes = b""
    """In a page that shows only what it found so far; such pages are counted. Empty: there are none."""


def measure(subjects: Iterable[Subject], options: argparse.Namespace) -> tuple[bool, bool]:
    """Print a line for each page; whether every answer was right, and whether every target was met."""
    from django.test import Client

    client = Client(SERVER_NAME="127.0.0.1", raise_request_exception=False)
    all_right = all_met = True
    print(f"\n{'':<34}{'p50 ms':>9}{'p95 ms':>9}{'KB':>7}{'queries':>9}")
    for subject in subjects:
        if options.only not in subject.name:
            continue
        is_right, is_met = _print_subject(client, subject, options.repeat)
        all_right, all_met = all_right and is_right, all_met and is_met
        sys.stdout.flush()
    return all_right, all_met


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repeat", type=int, default=15, help="tries of each page (default: %(default)s)")
    parser.add_argument("--only", default="", metavar="WORD", help="pages with this in their name")
    parser.add_argument("--strict", action="store_true", help="exit status 1 when a target is missed")


def _print_subject(client: Any, subject: Subject, repeat: int) -> tuple[bool, bool]:
    if not _has_page(subject.url(0)):
        print(f"{subject.name:<34}  there is no such page")
        return True, True
    first = client.get(subject.url(0))
    if first.status_code != 200:
        print(f"{subject.name:<34}  {first.status_code} for {subject.url(0)}")
        return False, False
    tries = [_try(client, subject, n) for n in range(1, repeat + 1)]
    times = sorted(milliseconds for milliseconds, _ in tries)
    p50, p95 = times[len(times) // 2], quantiles(times, n=20, method="inclusive")[18]
    is_met = p95 <= subject.target_ms
    verdict = "PASS" if is_met else f"FAIL  (target {subject.target_ms:g} ms)"
    unfinished = sum(is_unfinished for _, is_unfinished in tries)
    note = f"  {unfinished} of {repeat} show what was found so far" if unfinished else ""
    size, queries = len(_content(first)) / 1024, _queries(client, subject.url(1))
    print(f"{subject.name:<34}{p50:>9.1f}{p95:>9.1f}{size:>7.0f}{queries:>9}  {verdict}{note}")
    return True, is_met


def quiet_clock() -> float:
    """Seconds of CPU so far: of this thread, and of the PostgreSQL process that answers it."""
    from django.db import connection

    if connection.vendor != "postgresql" or connection.connection is None:
        return time.thread_time()
    try:
        ran = Path("/proc", str(connection.connection.info.backend_pid), "schedstat").read_text().split()[0]
    except OSError:
        return time.perf_counter()
    return time.thread_time() + int(ran) / 1e9


def _has_page(url: str) -> bool:
    from django.urls import Resolver404, resolve

    try:
        resolve(url.partition("?")[0])
    except Resolver404:
        return False
    return True


def _try(client: Any, subject: Subject, number: int) -> tuple[float, bool]:
    """Milliseconds of `quiet_clock`, and whether the page shows only what was found so far."""
    url, started = subject.url(number), quiet_clock()
    content = _content(client.get(url))
    return (quiet_clock() - started) * 1000, bool(subject.unfinished) and subject.unfinished in content


def _content(response: Any) -> bytes:
    return b"".join(response.streaming_content) if response.streaming else bytes(response.content)


def _queries(client: Any, url: str) -> int:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as queries:
        client.get(url)
    return len(queries)
