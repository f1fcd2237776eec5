"""Speed of the pages with a million episodes and ten million points of a scalar: each default view,
filter, sort, curve and search; and of each format of exports.

    python -m benchmarks dashboard [--episodes 1000000] [--points 10000000] [--runs 40]
                                   [--only WORD] [--repeat 40] [--by-cpu] [--scaled] [--prepare]
                                   [--strict]

Pages are requested with Django's test client in this process, including middleware and templates.
Other programs lengthen their wall time, but hardly affect their CPU time, which includes the
database's backend if that runs on this machine. What open pages cost the agents is the row
`viewers`.

Runs on SQLite in a directory that is kept for the next run, or on DATABASE_URL (empty, or filled by
an earlier run). The exit status is 1 if something failed or, with `--strict`, if a target was
missed.
"""

from __future__ import annotations

import argparse
import gc
import os
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from benchmarks.pages import Page, pages
from benchmarks.scenarios import slowness_now

EPISODES, POINTS, RUNS = 1_000_000, 10_000_000, 40
EXPORTED_EPISODES = 20_000
MIN_EXPORTED_STEPS = 20_000.0
"""Steps that each format has to export in a second."""
_HEADINGS = f"{'':<36}{'p50 ms':>8}{'p95 ms':>8}{'CPU p50':>9}{'CPU p95':>9}{'KB':>6}{'queries':>9}"


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    of_runs = "" if options.runs == RUNS else f"-in-{options.runs}-runs"
    directory = options.directory / f"{options.episodes}{of_runs}"
    directory.mkdir(parents=True, exist_ok=True)
    os.environ["ORSWEB_DATA_DIR"] = str(directory)
    os.environ["ORSWEB_LOG_LEVEL"] = "ERROR"
    os.environ["DJANGO_SETTINGS_MODULE"] = "orsweb.settings"
    import django

    django.setup()
    episodes = _prepare(options)
    if options.prepare:
        return 0
    slowness = slowness_now() if options.scaled else 1.0
    if options.scaled:
        print(f"times are divided by {slowness:.1f}, the slowness of this machine", flush=True)
    all_right, all_met = _measure_pages(options, episodes, slowness)
    all_met &= _measure_exports(options, slowness)
    return int(not all_right or (options.strict and not all_met))


def _prepare(options: argparse.Namespace) -> int:
    """Fill the database unless an earlier run did, bring everything that is derived from episodes
    up to date, and return the number of episodes."""
    from django.core.management import call_command

    from benchmarks.seeded import index_all, seed, seed_scalars
    from environments.models import Environment
    from episodes.models import Episode, ScalarSeries
    from episodes.rollups.follower import catch_up
    from episodes.rollups.recount import rebuild

    call_command("migrate", verbosity=0)
    if not Episode.objects.exists():
        start = time.perf_counter()
        steps = seed(options.episodes, options.runs)
        for environment in Environment.objects.all():
            rebuild(environment)
        index_all()
        seconds = time.perf_counter() - start
        print(f"{options.episodes:,} episodes, {steps:,} steps in {seconds:.0f} s", flush=True)
    if not ScalarSeries.objects.exists():
        seed_scalars(options.points)
    catch_up()  # includes parts that were added to the rollups after the database was filled
    return Episode.objects.count()


def _measure_pages(
    options: argparse.Namespace, episodes: int, slowness: float
) -> tuple[bool, bool]:
    """Print a line for each page. Returns whether every response was right, and whether every
    target was met."""
    from django.test import Client

    client = Client(SERVER_NAME="127.0.0.1", raise_request_exception=False)
    rows = [page for page in pages(options.runs) if options.only in page.name]
    for page in rows:
        client.get(page.url(0, episodes, options.runs))
    # as `serve` does after its start
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)
    print(f"\n{_HEADINGS}")
    all_right = all_met = True
    for page in rows:
        url = page.url(0, episodes, options.runs)
        first = client.get(url)
        if first.status_code != 200:
            print(f"{page.name:<36}  {first.status_code} for {url}")
            all_right = False
            continue
        wall_ms, cpu_ms = _times(client, page, options, episodes)
        figures = [median(wall_ms), _p95(wall_ms), median(cpu_ms), _p95(cpu_ms)]
        is_met = _p95(cpu_ms if options.by_cpu else wall_ms) / slowness <= page.target_ms
        cells = "".join(
            f"{value:>{width}.1f}" for value, width in zip(figures, (8, 8, 9, 9), strict=True)
        )
        queries = _queries(client, page.url(1, episodes, options.runs))
        verdict = "PASS" if is_met else f"FAIL  (target {page.target_ms:g} ms)"
        kb = len(_content(first)) / 1024
        print(f"{page.name:<36}{cells}{kb:>6.0f}{queries:>9}  {verdict}", flush=True)
        all_met &= is_met
    return all_right, all_met


def _times(
    client: Any, page: Page, options: argparse.Namespace, episodes: int
) -> tuple[Sequence[float], Sequence[float]]:
    """Return wall and CPU milliseconds of the requests, each with another URL."""
    from django.db import connection

    connection.close()  # the test client keeps the connection that is opened now
    connection.ensure_connection()
    wall_ms, cpu_ms = [], []
    for number in range(1, options.repeat + 1):
        url = page.url(number, episodes, options.runs)
        start, cpu = time.perf_counter(), _cpu_seconds()
        _content(client.get(url))
        wall_ms.append((time.perf_counter() - start) * 1000)
        cpu_ms.append((_cpu_seconds() - cpu) * 1000)
    return wall_ms, cpu_ms


def _p95(values: Sequence[float]) -> float:
    return quantiles(values, n=20, method="inclusive")[18]


def _cpu_seconds() -> float:
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


def _measure_exports(options: argparse.Namespace, slowness: float) -> bool:
    """Print how many steps of the first episodes each format exports in a second; return whether
    all are fast enough."""
    from environments.files.streaming import in_large_pieces
    from episodes.models import Episode, Step
    from episodes.transfer.export_file import ExportFile
    from episodes.transfer.formats import EXPORT_FORMATS

    names = [name for name in EXPORT_FORMATS if options.only in f"export {name}"]
    if not names:
        return True
    steps = Step.objects.filter(episode__lte=EXPORTED_EPISODES).count()
    print(f"\nexport of {steps:,} steps (target {MIN_EXPORTED_STEPS:,.0f} a second)")
    clock, all_met = time.process_time if options.by_cpu else time.perf_counter, True
    for name in names:
        start = clock()
        file = ExportFile(Episode.objects.filter(pk__lte=EXPORTED_EPISODES))
        size = sum(map(len, in_large_pieces(EXPORT_FORMATS[name].pieces(file))))
        rate = steps / (clock() - start)
        is_met = rate * slowness >= MIN_EXPORTED_STEPS
        figures = f"{rate:>10,.0f} steps/s{size / 2**20:>8.0f} MB"
        print(f"{name:<36}{figures}  {'PASS' if is_met else 'FAIL'}", flush=True)
        all_met &= is_met
    return all_met


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks dashboard",
        description="Speed of the pages.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--episodes", type=int, default=EPISODES, help="episodes to create")
    parser.add_argument("--points", type=int, default=POINTS, help="points of scalars to create")
    parser.add_argument("--runs", type=int, default=RUNS, help="runs that share them")
    parser.add_argument(
        "--directory",
        type=Path,
        default=Path("var/benchmark-dashboard"),
        help="of SQLite; it is kept",
    )
    parser.add_argument("--repeat", type=int, default=40, help="requests of each page")
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
    parser.add_argument("--scaled", action="store_true", help="scale times to the targets' machine")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a target is missed")
    return parser.parse_args(arguments)
