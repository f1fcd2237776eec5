"""Cost of the catalogue: the time to sync 100,000 tasks, and the latencies of count, get and range.

Run as `python -m benchmarks.tasks [tasks of the large split]`, on SQLite in a temporary directory
or on DATABASE_URL (a database that may be filled). Latencies are measured for a small and a large
split.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from environments.authoring.environment import Environment
from environments.authoring.tools import tool
from environments.wire import Blocks, JSONObject, TextBlock, ToolOutput

if TYPE_CHECKING:
    from environments.authoring.registry import Registry
    from environments.tasks.catalog import Catalogue
    from environments.tasks.sync_report import SyncReport

SYNCED = 100_000
SMALL = 100
READS = 2000


class Listing(Environment):
    """An environment with tasks of about 120 bytes; `sizes` holds the number of tasks of each split."""

    sizes: dict[str, int] = {}

    @classmethod
    def list_splits(cls) -> Sequence[str]:
        return list(cls.sizes)

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        filling = "How many apples are left when some have been eaten?"
        return [
            {"split": split, "question": f"{n}: {filling}", "answer": n}
            for n in range(cls.sizes[split])
        ]

    def get_prompt(self) -> Blocks:
        return [TextBlock(text="")]

    @tool
    def submit(self) -> ToolOutput:
        return ToolOutput(blocks=[])


async def main(large: int) -> None:
    from environments.authoring.hosted_class import HostedClass
    from environments.authoring.registry import Registry
    from environments.runtime.host import LocalHost
    from environments.runtime.limits import Limits
    from environments.runtime.threads import ThreadPool
    from environments.tasks.catalog import Catalogue

    pool, limits = ThreadPool(), Limits()
    Listing.sizes = {f"sync-{random.randrange(10**9)}": SYNCED}
    registry = Registry([HostedClass(Listing)])
    await report_sync("first sync", registry, LocalHost(registry, pool, limits))
    await report_sync("second sync", registry, LocalHost(registry, pool, limits))
    Listing.sizes = {"small": SMALL, "large": large}
    registry = Registry([HostedClass(Listing)])
    host = LocalHost(registry, pool, limits)
    await report_sync("both sizes", registry, host)
    catalogue = Catalogue(registry, host)
    for split, size in Listing.sizes.items():
        await report_latencies(catalogue, split, size)
    catalogue.close()


async def report_sync(label: str, registry: Registry, host: Any) -> None:
    from django.db.backends.signals import connection_created

    from environments.tasks.sync import sync

    statements_ms: list[float] = [0.0]
    timing = partial(time_statements, statements_ms)
    connection_created.connect(timing)
    report: SyncReport = await sync(registry, host)
    connection_created.disconnect(timing)
    tasks = sum(split.added + split.unchanged for split in report.splits)
    print(
        f"{label}: {tasks:,} tasks in {report.seconds:.2f} s; longest statement "
        f"{max(statements_ms):.0f} ms"
    )


def time_statements(statements_ms: list[float], connection: Any, **_: Any) -> None:
    """Measure each statement of a new connection, including its commit and the wait for SQLite's
    write lock."""

    def timed(execute: Any, *args: Any) -> Any:
        started = time.perf_counter()
        try:
            return execute(*args)
        finally:
            statements_ms.append((time.perf_counter() - started) * 1000)

    connection.execute_wrappers.append(timed)


async def longest_stall() -> float:
    """Run until cancelled; return the longest delay of the event loop in milliseconds."""
    worst = 0.0
    try:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.005)
            worst = max(worst, time.perf_counter() - before - 0.005)
    except asyncio.CancelledError:
        return worst * 1000


async def report_latencies(catalogue: Catalogue, split: str, size: int) -> None:
    stall = asyncio.create_task(longest_stall())
    started = time.perf_counter()
    await catalogue.count("listing", split)
    first_ms = (time.perf_counter() - started) * 1000
    await asyncio.sleep(0)
    stall.cancel()
    indexes = itertools.cycle(random.sample(range(size), min(size, READS)))
    reads: dict[str, Callable[[], Awaitable[Any]]] = {
        "count": lambda: catalogue.count("listing", split),
        "get": lambda: catalogue.get("listing", split, next(indexes)),
        "get again": lambda: catalogue.get("listing", split, 7),
        "range of 10": lambda: anext(catalogue.range("listing", split, -10, None)),
    }
    print(
        f"{size:,} tasks: first read {first_ms:.0f} ms, longest stall of the loop "
        f"{await stall:.0f} ms"
    )
    for label, read in reads.items():
        median, worst, cpu = await latencies_us(read)
        print(f"  {label:12} p50 {median:5.0f} µs   p99 {worst:5.0f} µs   CPU {cpu:5.0f} µs")


async def latencies_us(read: Callable[[], Awaitable[Any]]) -> tuple[float, float, float]:
    """Return the median, 99th percentile and CPU time (of all threads) of one read, in
    microseconds."""
    taken = []
    cpu = time.process_time()
    for _ in range(READS):
        started = time.perf_counter()
        await read()
        taken.append((time.perf_counter() - started) * 1e6)
    cpu = (time.process_time() - cpu) * 1e6 / READS
    taken.sort()
    return taken[READS // 2], taken[READS * 99 // 100], cpu


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        os.environ["ORSWEB_DATA_DIR"] = directory
        os.environ["DJANGO_SETTINGS_MODULE"] = "orsweb.settings"
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0)
        asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000))
