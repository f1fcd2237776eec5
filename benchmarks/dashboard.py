"""Speed of the pages over a million episodes: each default view, filter, sort, curve and search. Then what pages weigh,
how fast episodes are exported, and what an open page costs the agents.

    python -m benchmarks dashboard [--episodes 1000000] [--only WORD] [--repeat 40] [--by-cpu] [--reckoned] [--strict]

On SQLite in a directory that is kept for the next time, or on DATABASE_URL (empty, or filled by this before). Exit
status 1 when something failed; with `--strict` also when a target was missed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

EPISODES = 1_000_000
PLAY_SECONDS = 5.0
"""Of each round in which agents play."""


def prepare(options: argparse.Namespace) -> None:
    """Fill the database, unless it was filled before; then everything that follows the endings."""
    from django.core.management import call_command

    from benchmarks.million import seed
    from episodes.models import Episode
    from episodes.rollups.follower import catch_up

    call_command("migrate", verbosity=0)
    if not Episode.objects.exists():
        started = time.perf_counter()
        steps = seed(options.episodes)
        print(f"{options.episodes:,} episodes, {steps:,} steps in {time.perf_counter() - started:.0f} s", flush=True)
        _follow()
    catch_up()  # also with what has been derived from endings only since the database was filled
    options.episodes = Episode.objects.count()


def _follow() -> None:
    """Statistics of tasks, and what is derived from endings."""
    from benchmarks.texts import index_all
    from environments.models import Environment
    from episodes.recording.recount import rebuild

    started = time.perf_counter()
    for environment in Environment.objects.all():
        rebuild(environment)
    index_all()
    print(f"statistics and texts in {time.perf_counter() - started:.0f} s", flush=True)


def _measure(options: argparse.Namespace) -> tuple[bool, bool]:
    """Whether every answer was right, and whether every target was met."""
    from benchmarks import export_rate, page_times, page_weight, publishing
    from benchmarks.pages import subjects

    only, by_cpu, slowness = options.only, options.by_cpu, page_times.slowness(is_asked=options.reckoned)
    asked = [subject for subject in subjects(options.episodes) if only in subject.name]
    found = [page_times.measure(asked, options.repeat, by_cpu=by_cpu, slowness=slowness)] if asked else []
    found.append(page_weight.measure(only))
    found.append(export_rate.measure(only, by_cpu=by_cpu, slowness=slowness))
    found.append(publishing.measure(only, options.rounds, PLAY_SECONDS, by_cpu=by_cpu))
    return all(right for right, _ in found), all(met for _, met in found)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks dashboard", description="Speed of the pages.")
    parser.add_argument("--episodes", type=int, default=EPISODES, help="how many are made (default: %(default)s)")
    parser.add_argument("--directory", type=Path, default=Path("var/benchmark-dashboard"), help="kept, for SQLite")
    parser.add_argument("--repeat", type=int, default=40, help="tries of each page (default: %(default)s)")
    parser.add_argument(
        "--rounds", type=int, default=5, help="of play with a page open and closed (default: %(default)s)"
    )
    parser.add_argument("--only", default="", metavar="WORD", help="what has this in its name")
    parser.add_argument("--by-cpu", action="store_true", help="judge by CPU time, on a machine that is not quiet")
    parser.add_argument("--reckoned", action="store_true", help="judge as on a machine as fast as the targets'")
    parser.add_argument("--strict", action="store_true", help="exit status 1 when a target is missed")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    directory = options.directory / str(options.episodes)
    directory.mkdir(parents=True, exist_ok=True)
    os.environ["ORSWEB_DATA_DIR"] = str(directory)
    os.environ["ORSWEB_LOG_LEVEL"] = "ERROR"
    os.environ["DJANGO_SETTINGS_MODULE"] = "orsweb.settings"
    import django

    django.setup()
    prepare(options)
    all_right, all_met = _measure(options)
    return int(not all_right or (options.strict and not all_met))


if __name__ == "__main__":
    sys.exit(main())
