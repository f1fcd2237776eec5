"""Server time of the admin's list of a million tasks, with each filter alone and with each pair of
filters.

    python -m benchmarks task_list [--tasks 1000000] [--only WORD] [--repeat 15] [--by-cpu]
    [--scaled] [--strict]

Each list is opened at its start, and then at positions closer and closer to its end. Runs on SQLite
in a directory that is kept for the next run, or on DATABASE_URL (empty, or filled by an earlier
run); `seeded_tasks.py` describes the data. A page that cannot be filled in its time shows the
results found so far, and is counted. The exit status is 1 if a page failed or, with `--strict`, if
a target was missed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from urllib.parse import urlencode

from benchmarks import page_times
from benchmarks.pages import Subject

TASKS = 1_000_000
PAGE_MS = 100.0
SORTED_MS = 1000.0
PATH = "/admin/environments/task/"

Filters = Mapping[str, str]


def subjects(tasks: int, repeat: int) -> Iterator[Subject]:
    """Yield the lists that the page's filters offer: each filter alone, and each pair."""
    yield _list("all tasks", {}, tasks, repeat)
    kinds = _kinds()
    for kind, filters in kinds.items():
        for name, chosen in filters.items():
            yield _list(f"{kind} {name}", chosen, tasks, repeat)
    for one, other in combinations(kinds, 2):
        for name, chosen in kinds[one].items():
            for also, added in kinds[other].items():
                yield _list(f"{one} {name}, {other} {also}", {**chosen, **added}, tasks, repeat)
    for name, chosen in {
        "split train": kinds["split"]["train"],
        "bucket unseen": {"bucket": "unseen"},
    }.items():
        yield _list(f"{name}, search", {**chosen, "search": "times 13?"}, tasks, repeat)
    for name, chosen in {"split train": kinds["split"]["train"], "all tasks": {}}.items():
        yield _list(
            f"{name}, field with many matches", {**chosen, "search": "answer>1000"}, tasks, repeat
        )
        yield _list(
            f"{name}, field with few matches",
            {**chosen, "search": "answer:123456789"},
            tasks,
            repeat,
        )
        for sort in ("-success", "attempts", "tags"):
            yield replace(
                _list(f"{name}, sorted by {sort}", {**chosen, "sort": sort}, tasks, repeat),
                target_ms=SORTED_MS,
            )
    yield _list("search with many matches", {"search": "how much"}, tasks, repeat)
    yield _list("search with few matches", {"search": "is 123456 times"}, tasks, repeat)


def _kinds() -> dict[str, dict[str, dict[str, str]]]:
    from environments.models import Environment, Split

    def each(kind: str, *values: str) -> dict[str, dict[str, str]]:
        return {value: {kind: value} for value in values}

    return {
        "environment": {
            row.name: {"environment": str(row.pk)} for row in Environment.objects.all()
        },
        "split": {row.name: {"split": str(row.pk)} for row in Split.objects.order_by("pk")},
        "tag": each("tag", "rare", "some", "block", "scattered", "chapter"),
        "state": each("state", "active", "quarantined"),
        "source": each("source", "code", "import", "edit", "played", "dropped"),
        "bucket": each("bucket", "unseen", "hopeless", "learnable", "saturated"),
    }


def _list(name: str, filters: Filters, tasks: int, repeat: int) -> Subject:
    def url(number: int) -> str:
        at = tasks * (number - 1) // repeat
        cursor = (
            {"after": f"{at}" if _is_by_place(filters) else f"n{tasks - at}"} if number > 1 else {}
        )
        return f"{PATH}?{urlencode({**filters, **cursor})}"

    return Subject(name, url, PAGE_MS, unfinished=b"data-continue")


def _is_by_place(filters: Filters) -> bool:
    """Return whether the list has the order of a split, so that its cursors are positions;
    otherwise they are ids of tasks.
    """
    from environments.curation.selection import Selection
    from environments.models import UNRESTRICTED

    return Selection.parse(filters, UNRESTRICTED).batch(seconds=10.0).order == "split"


def _limit_by_cpu() -> None:
    """Limit pages by CPU time. By wall time, a page on a busy machine would scan less, and seem
    faster than it is."""
    from environments.curation import index_walk

    index_walk.clock = page_times.cpu_seconds


def prepare(options: argparse.Namespace) -> None:
    """Fill the database unless an earlier run did."""
    from django.core.management import call_command

    from benchmarks.seeded_tasks import seed
    from environments.models import Task

    call_command("migrate", verbosity=0)
    if not Task.objects.exists():
        started = time.perf_counter()
        seed(options.tasks)
        print(f"{options.tasks:,} tasks in {time.perf_counter() - started:.0f} s", flush=True)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks task_list", description="Server time of the task list."
    )
    parser.add_argument(
        "--tasks", type=int, default=TASKS, help="number of tasks to create (default: %(default)s)"
    )
    parser.add_argument(
        "--directory", type=Path, default=Path("var/benchmark-tasks"), help="of SQLite; it is kept"
    )
    parser.add_argument(
        "--repeat", type=int, default=15, help="requests of each page (default: %(default)s)"
    )
    parser.add_argument(
        "--only", default="", metavar="WORD", help="measure only pages with this in their name"
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
    directory = options.directory / str(options.tasks)
    directory.mkdir(parents=True, exist_ok=True)
    os.environ["ORSWEB_DATA_DIR"] = str(directory)
    os.environ["ORSWEB_LOG_LEVEL"] = "ERROR"
    os.environ["DJANGO_SETTINGS_MODULE"] = "orsweb.settings"
    import django

    django.setup()
    prepare(options)
    if options.by_cpu:
        _limit_by_cpu()
    chosen = [
        subject
        for subject in subjects(options.tasks, options.repeat)
        if options.only in subject.name
    ]
    slowness = page_times.slowness(is_scaled=options.scaled)
    all_right, all_met = page_times.measure(
        chosen, options.repeat, by_cpu=options.by_cpu, slowness=slowness
    )
    return int(not all_right or (options.strict and not all_met))


if __name__ == "__main__":
    sys.exit(main())
