"""Server time of the pages over a million episodes: each default view, filter, sort, curve and search.

    python -m benchmarks.dashboard [--episodes 1000000] [--only WORD] [--repeat 15] [--strict]

On SQLite in a directory that is kept for the next time, or on DATABASE_URL (empty, or filled by this before). How time
is taken: `pages.py`. Exit status 1 when a page failed; with `--strict` also when a target was missed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.pages import Subject, add_options, measure

EPISODES = 1_000_000
VIEW_MS, SEARCH_MS = 100.0, 1000.0
"""Targets, of the 95th percentile."""


def _view(name: str, url: Callable[[int], str]) -> Subject:
    return Subject(name, url, VIEW_MS)


def subjects(episodes: int) -> Iterator[Subject]:
    """Every page that the issue sets a target for."""
    yield from _pages(episodes)
    yield from _lists(episodes)
    yield from _curves()
    words = ["zephyr", "lantern granite", "oasis", "kestrel orchid", "nosuchword"]
    yield Subject("search", lambda n: f"/episodes/?text={words[n % len(words)].replace(' ', '+')}", SEARCH_MS)


def _pages(episodes: int) -> Iterator[Subject]:
    yield _view("overview", lambda n: "/")
    yield _view("environments", lambda n: "/environments/")
    yield _view("environment", lambda n: f"/environments/bench{n % 6}/")
    yield _view("leaderboard", lambda n: f"/environments/bench{n % 6}/leaderboard/?split=train")
    yield _view("runs", lambda n: "/runs/")
    yield _view("run", lambda n: f"/runs/{1 + n % 40}/")
    yield _view("task", lambda n: f"/tasks/{1 + n * 37 % 4000}/")
    yield _view("group", lambda n: f"/tasks/{1 + n * 37 % 4000}/group/?run={1 + n % 40}&step={n}")
    yield _view("replay", lambda n: f"/episodes/{1 + n * 7919 % episodes}/")
    yield _view("compare", lambda n: f"/compare/?episodes={1 + n},{2 + n}")
    yield _view("compare runs", lambda n: f"/compare/?runs={1 + n % 39},{2 + n % 39}")


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
    yield _view("episodes", lambda n: "/episodes/")
    for name, query in filters.items():
        yield _view(f"episodes by {name}", lambda n, query=query: f"/episodes/?{query(n)}")  # type: ignore[misc]
    for sort in ("time", "return", "steps", "duration"):
        for sign in ("", "-"):
            yield _view(f"episodes sorted {sign}{sort}", lambda n, by=f"{sign}{sort}": f"/episodes/?sort={by}")  # type: ignore[misc]
    for by in ("last", "max", "mean"):
        yield _view(f"episodes sorted {by}", lambda n, by=by: f"/episodes/?sort=-return&return={by}")  # type: ignore[misc]
    yield _view("two filters, sorted", lambda n: f"/episodes/?environment=bench{n % 6}&error=yes&sort=-return")


def _curves() -> Iterator[Subject]:
    for x in ("episode", "time", "step"):
        yield _view(f"curve by {x}", lambda n, x=x: f"/runs/curves/?environment=bench{n % 6}&x={x}")  # type: ignore[misc]
    yield _view("curve of a run", lambda n: f"/runs/curves/?run=grpo-{n % 40}&x=step")
    yield _view("curve of a split", lambda n: f"/runs/curves/?environment=bench{n % 6}&split=train")
    yield _view("curve of a task", lambda n: f"/runs/curves/?task={1 + n * 37 % 4000}")


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
    add_options(parser)
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
    all_right, all_met = measure(subjects(options.episodes), options)
    return int(not all_right or (options.strict and not all_met))


if __name__ == "__main__":
    sys.exit(main())
