"""Speed of the pages with a million episodes: each default view, filter, sort, curve and search.

Also measures the size of pages, the speed of exports, and what an open page costs the agents.

    python -m benchmarks dashboard [--episodes 1000000] [--runs 40] [--only WORD] [--repeat 40]
                                   [--by-cpu] [--scaled] [--prepare] [--strict]

Runs on SQLite in a directory that is kept for the next run, or on DATABASE_URL (empty, or filled by
an earlier run). The exit status is 1 if something failed or, with `--strict`, if a target was
missed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

EPISODES, RUNS = 1_000_000, 40
PLAY_SECONDS = 5.0
"""Length of each round in which agents play."""


def prepare(options: argparse.Namespace) -> None:
    """Fill the database unless an earlier run did, and bring everything that is derived from
    episodes up to date."""
    from django.core.management import call_command

    from benchmarks.seeded_episodes import seed
    from episodes.models import Episode
    from episodes.rollups.follower import catch_up

    call_command("migrate", verbosity=0)
    if not Episode.objects.exists():
        started = time.perf_counter()
        steps = seed(options.episodes, options.runs)
        print(
            f"{options.episodes:,} episodes, {steps:,} steps in "
            f"{time.perf_counter() - started:.0f} s",
            flush=True,
        )
        _derive()
    catch_up()  # includes parts that were added to the rollups after the database was filled
    options.episodes = Episode.objects.count()


def _derive() -> None:
    """Compute the statistics of tasks and the search index."""
    from benchmarks.seeded_texts import index_all
    from environments.models import Environment
    from episodes.rollups.recount import rebuild

    started = time.perf_counter()
    for environment in Environment.objects.all():
        rebuild(environment)
    index_all()
    print(f"statistics and texts in {time.perf_counter() - started:.0f} s", flush=True)


def _measure(options: argparse.Namespace) -> tuple[bool, bool]:
    """Measure everything. Returns whether every response was right, and whether every target was
    met."""
    from benchmarks import export_rate, page_times, page_weight, publishing
    from benchmarks.pages import subjects

    only, by_cpu, slowness = (
        options.only,
        options.by_cpu,
        page_times.slowness(is_scaled=options.scaled),
    )
    chosen = [
        subject for subject in subjects(options.episodes, options.runs) if only in subject.name
    ]
    found = (
        [page_times.measure(chosen, options.repeat, by_cpu=by_cpu, slowness=slowness)]
        if chosen
        else []
    )
    found.append(page_weight.measure(only))
    found.append(export_rate.measure(only, by_cpu=by_cpu, slowness=slowness))
    found.append(publishing.measure(only, options.rounds, PLAY_SECONDS, by_cpu=by_cpu))
    return all(right for right, _ in found), all(met for _, met in found)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks dashboard", description="Speed of the pages."
    )
    parser.add_argument(
        "--episodes",
        type=int,
        default=EPISODES,
        help="number of episodes to create (default: %(default)s)",
    )
    parser.add_argument(
        "--runs",
        type=int,
        default=RUNS,
        help="number of runs that share the episodes to create (default: %(default)s)",
    )
    parser.add_argument(
        "--directory",
        type=Path,
        default=Path("var/benchmark-dashboard"),
        help="of SQLite; it is kept",
    )
    parser.add_argument(
        "--repeat", type=int, default=40, help="requests of each page (default: %(default)s)"
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=5,
        help="rounds of play with and without an open page (default: %(default)s)",
    )
    parser.add_argument(
        "--prepare", action="store_true", help="fill the database and measure nothing"
    )
    parser.add_argument(
        "--only", default="", metavar="WORD", help="measure only what has this in its name"
    )
    parser.add_argument(
        "--by-cpu",
        action="store_true",
        help="compare CPU times with the targets, for a busy machine",
    )
    parser.add_argument(
        "--scaled", "--reckoned", action="store_true", help="scale times to the targets' machine"
    )
    parser.add_argument(
        "--strict", action="store_true", help="exit status 1 when a target is missed"
    )
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    of_runs = "" if options.runs == RUNS else f"-in-{options.runs}-runs"
    directory = options.directory / f"{options.episodes}{of_runs}"
    directory.mkdir(parents=True, exist_ok=True)
    os.environ["ORSWEB_DATA_DIR"] = str(directory)
    os.environ["ORSWEB_LOG_LEVEL"] = "ERROR"
    os.environ["DJANGO_SETTINGS_MODULE"] = "orsweb.settings"
    import django

    django.setup()
    prepare(options)
    if options.prepare:
        return 0
    all_right, all_met = _measure(options)
    return int(not all_right or (options.strict and not all_met))


if __name__ == "__main__":
    sys.exit(main())
