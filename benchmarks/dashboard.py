"""Server time of the pages over a million episodes: each default view, filter, sort, curve and search.

    python -m benchmarks.dashboard [--episodes 1000000] [--only WORD] [--repeat 15] [--strict]

On SQLite in a directory that is kept for the next time, or on DATABASE_URL (empty, or filled by this before). Pages
are asked through Django's test client in this process, middleware and templates included, so the figures are server
time; each page some times with other values, the first of them left out. Exit status 1 when a page failed; with
`--strict` also when a target was missed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import Any

EPISODES = 1_000_000
VIEW_MS, SEARCH_MS = 100.0, 1000.0
"""Targets, of the 95th percentile."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One view. `url` of the try's number, so that no two tries need ask for the same."""

    name: str
    url: Callable[[int], str]
    target_ms: float = VIEW_MS


def subjects(episodes: int) -> Iterator[Subject]:
    """Every page that the issue sets a target for."""
    yield from _pages(episodes)
    yield from _lists(episodes)
    yield from _curves()
    words = ["zephyr", "lantern granite", "oasis", "kestrel orchid", "nosuchword"]
    yield Subject("search", lambda n: f"/episodes/?text={words[n % len(words)].replace(' ', '+')}", SEARCH_MS)


def _pages(episodes: int) -> Iterator[Subject]:
    yield Subject("overview", lambda n: "/")
    yield Subject("environments", lambda n: "/environments/")
    yield Subject("environment", lambda n: f"/environments/bench{n % 6}/")
    yield Subject("leaderboard", lambda n: f"/environments/bench{n % 6}/leaderboard/?split=train")
    yield Subject("runs", lambda n: "/runs/")
    yield Subject("run", lambda n: f"/runs/{1 + n % 40}/")
    yield Subject("task", lambda n: f"/tasks/{1 + n * 37 % 4000}/")
    yield Subject("group", lambda n: f"/tasks/{1 + n * 37 % 4000}/group/?run={1 + n % 40}&step={n}")
    yield Subject("replay", lambda n: f"/episodes/{1 + n * 7919 % episodes}/")
    yield Subject("compare", lambda n: f"/compare/?episodes={1 + n},{2 + n}")
    yield Subject("compare runs", lambda n: f"/compare/?runs={1 + n % 39},{2 + n % 39}")


def _lists(episodes: int) -> Iterator[Subject]:
    """The list of episodes: as it opens, by any one filter, by any sort."""
    filters: dict[str, Callable[[int], str]] = {
        "environment": lambda n: f"environment=bench{n % 6}",
        "environment and split": lambda n: f"environment=bench{n % 6}&split=train",
        "task": lambda n: f"task={1 + n * 37 % 4000}",
        "run": lambda n: f"run=grpo-{n % 40}",
        "run and step": lambda n: f"run=grpo-{n % 40}&step={n}",
        "model": lambda n: f"model=model-{n % 8}",
        "player": lambda n: f"player={('agent', 'human', 'script')[n % 3]}",
        "error": lambda n: f"error={('yes', 'no')[n % 2]}",
        "return range": lambda n: f"return_from={-0.5 + n / 10}&return_to={n / 10}",
        "steps range": lambda n: f"steps_from={n}&steps_to={n + 3}",
        "rare steps": lambda n: f"steps_from={50 + n % 5}",
        "since": lambda n: f"since={n + 1}d",
        "until": lambda n: f"until={n + 1}d",
        "endings": lambda n: f"ends_from={1 + n * 5000}&ends_to={128 + n * 5000}",
    }
    endings = [
        "finished",
        "abandoned",
        "expired",
        "setup_failed",
        "env_error",
        "interrupted",
        "probe",
        "attempt",
        "running",
    ]
    filters |= {f"ending {name}": lambda n, name=name: f"ending={name}" for name in endings}  # type: ignore[misc]
    yield Subject("episodes", lambda n: "/episodes/")
    for name, query in filters.items():
        yield Subject(f"episodes by {name}", lambda n, query=query: f"/episodes/?{query(n)}")  # type: ignore[misc]
    for sort in ("time", "return", "steps", "duration"):
        for sign in ("", "-"):
            yield Subject(f"episodes sorted {sign}{sort}", lambda n, by=f"{sign}{sort}": f"/episodes/?sort={by}")  # type: ignore[misc]
    for by in ("last", "max", "mean"):
        yield Subject(f"episodes sorted {by}", lambda n, by=by: f"/episodes/?sort=-return&return={by}")  # type: ignore[misc]
    yield Subject("two filters, sorted", lambda n: f"/episodes/?environment=bench{n % 6}&error=yes&sort=-return")


def _curves() -> Iterator[Subject]:
    for x in ("episode", "time", "step"):
        yield Subject(f"curve by {x}", lambda n, x=x: f"/runs/curves/?environment=bench{n % 6}&x={x}")  # type: ignore[misc]
    yield Subject("curve of a run", lambda n: f"/runs/curves/?run=grpo-{n % 40}&x=step")
    yield Subject("curve of a split", lambda n: f"/runs/curves/?environment=bench{n % 6}&split=train")
    yield Subject("curve of a task", lambda n: f"/runs/curves/?task={1 + n * 37 % 4000}")


# --- measuring -------------------------------------------------------------------------------------------------------


def measure(options: argparse.Namespace) -> tuple[bool, bool]:
    """Print a line for each page; whether every answer was right, and whether every target was met."""
    from django.test import Client

    client = Client(SERVER_NAME="127.0.0.1", raise_request_exception=False)
    all_right = all_met = True
    print(f"\n{'':<28}{'p50 ms':>9}{'p95 ms':>9}{'KB':>7}{'queries':>9}")
    for subject in subjects(options.episodes):
        if options.only not in subject.name:
            continue
        is_right, is_met = _print_subject(client, subject, options.repeat)
        all_right, all_met = all_right and is_right, all_met and is_met
        sys.stdout.flush()
    return all_right, all_met


def _print_subject(client: Any, subject: Subject, repeat: int) -> tuple[bool, bool]:
    if not _has_page(subject.url(0)):
        print(f"{subject.name:<28}  there is no such page")
        return True, True
    first = client.get(subject.url(0))
    if first.status_code != 200:
        print(f"{subject.name:<28}  {first.status_code} for {subject.url(0)}")
        return False, False
    times = sorted(_milliseconds(client, subject.url(n)) for n in range(1, repeat + 1))
    p50, p95 = times[len(times) // 2], quantiles(times, n=20, method="inclusive")[18]
    is_met = p95 <= subject.target_ms
    verdict = "PASS" if is_met else f"FAIL  (target {subject.target_ms:g} ms)"
    size, queries = _size(first) / 1024, _queries(client, subject.url(1))
    print(f"{subject.name:<28}{p50:>9.1f}{p95:>9.1f}{size:>7.0f}{queries:>9}  {verdict}")
    return True, is_met


def _has_page(url: str) -> bool:
    from django.urls import Resolver404, resolve

    try:
        resolve(url.partition("?")[0])
    except Resolver404:
        return False
    return True


def _milliseconds(client: Any, url: str) -> float:
    started = time.perf_counter()
    _size(client.get(url))
    return (time.perf_counter() - started) * 1000


def _size(response: Any) -> int:
    return len(b"".join(response.streaming_content) if response.streaming else response.content)


def _queries(client: Any, url: str) -> int:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as queries:
        client.get(url)
    return len(queries)


# --- the database ----------------------------------------------------------------------------------------------------


def prepare(options: argparse.Namespace) -> None:
    """Fill the database, unless it was filled before; then everything that follows the endings."""
    from django.core.management import call_command

    from benchmarks.million import seed
    from episodes.models import Episode

    call_command("migrate", verbosity=0)
    if not Episode.objects.exists():
        started = time.perf_counter()
        steps = seed(options.episodes)
        print(f"{options.episodes:,} episodes, {steps:,} steps in {time.perf_counter() - started:.0f} s", flush=True)
        _follow()
    options.episodes = Episode.objects.count()


def _follow() -> None:
    from django.core.management import call_command

    started = time.perf_counter()
    call_command("rebuild_statistics", verbosity=0)
    from episodes.follower.catch_up import catch_up

    catch_up()
    print(f"statistics in {time.perf_counter() - started:.0f} s", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dashboard", description="Server time of the pages.")
    parser.add_argument("--episodes", type=int, default=EPISODES, help="how many are made (default: %(default)s)")
    parser.add_argument("--directory", type=Path, default=Path("var/benchmark-dashboard"), help="kept, for SQLite")
    parser.add_argument("--repeat", type=int, default=15, help="tries of each page (default: %(default)s)")
    parser.add_argument("--only", default="", metavar="WORD", help="pages with this in their name")
    parser.add_argument("--strict", action="store_true", help="exit status 1 when a target is missed")
    return parser.parse_args()


def main() -> int:
    options = _options()
    directory = options.directory / str(options.episodes)
    directory.mkdir(parents=True, exist_ok=True)
    os.environ["ORSWEB_DATA_DIR"] = str(directory)
    os.environ["ORSWEB_LOG_LEVEL"] = "ERROR"
    os.environ["DJANGO_SETTINGS_MODULE"] = "orsweb.settings"
    import django

    django.setup()
    prepare(options)
    all_right, all_met = measure(options)
    return int(not all_right or (options.strict and not all_met))


if __name__ == "__main__":
    sys.exit(main())
