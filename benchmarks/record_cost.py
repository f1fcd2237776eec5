"""Cost of recording alone: the recorder's CPU time per episode, without HTTP and without an
environment.

    python -m benchmarks.record_cost [--episodes 4000] [--agents 32] [--followers 0]

Agents record whole episodes (1 start, 1 note, 5 steps, 1 end) and wait for the commit of each step,
as sessions do. The cost of the same load on a record that stores nothing is subtracted. Followers
are open pages that receive the events. Runs on SQLite in a temporary directory, or on the server in
DATABASE_URL, in a database that is created for it and dropped; the CPU time of that server's
processes is shown if it runs on this machine.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

STEPS = 5
INPUT_JSON = '{"text":"' + "x" * 100 + '"}'
OUTPUT_JSON = (
    '{"blocks":[{"text":"'
    + "x" * 100
    + '","detail":null,"type":"text"}],"metadata":null,"reward":0.5,"finished":false}'
)
TOOLS_JSON = '{"tools":[{"name":"echo","description":"' + "x" * 800 + '","input_schema":null}]}'


class NullRecord:
    """A record that stores nothing and reports the commit in the next iteration of the loop."""

    def __init__(self) -> None:
        self._last = 0

    def next_episode(self) -> int:
        self._last += 1
        return self._last

    def record(self, *rows: Any, committed: Callable[[], None] | None = None) -> None:
        if committed:
            asyncio.get_running_loop().call_soon(committed)


@dataclass
class Cost:
    episodes: int
    seconds: float
    cpu_seconds: float
    server_seconds: float | None = None
    """CPU time of the PostgreSQL backends; None on SQLite."""


async def play_episode(record: Any, number: int) -> None:
    from environments.runtime import records

    now = time.time()
    episode = record.next_episode()
    run = records.RunInfo("benchmark")
    record.record(
        records.EpisodeStarted(
            *(episode, "echo", "train", number % 100, f'{{"id":{number % 100}}}', TOOLS_JSON),
            *(f"session-{number:032x}", "ors/0.1.0", "", "agent", run, now),
        )
    )
    record.record(
        records.EpisodeNoted(
            episode, now, f'[{{"text":"Task {number % 100}","type":"text"}}]', None
        )
    )
    for index in range(STEPS):
        step = records.StepTaken(
            *(
                episode,
                index,
                "echo",
                INPUT_JSON,
                OUTPUT_JSON,
                0.5,
                index == STEPS - 1,
                "ok",
                "",
                "",
            ),
            *(f"{number:024x}{index:08x}", now, 1.5, 0.0),
        )
        await _recorded(record, step)
    returns = (2.5, 0.5, 0.5, 0.5)
    end = records.EpisodeEnded(
        *(episode, "finished", "", "agent", True, True, now, STEPS, 0, 0, *returns, now, now, now)
    )
    await _recorded(record, end)


async def _recorded(record: Any, row: Any) -> None:
    done = asyncio.get_running_loop().create_future()
    record.record(row, committed=lambda: done.set_result(None))
    await done


async def play(record: Any, episodes: int, agents: int) -> Cost:
    numbers = iter(range(episodes))

    async def agent() -> None:
        for number in numbers:
            await play_episode(record, number)

    wall, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(agent() for _ in range(agents)))
    return Cost(episodes, time.perf_counter() - wall, time.process_time() - cpu)


def backend_seconds() -> float | None:
    """Return this database's backends' CPU time so far; None on SQLite, and for a server on another
    machine."""
    import psutil
    from django.db import connection

    if connection.vendor != "postgresql":
        return None
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> "
            "pg_backend_pid()"
        )
        pids = [pid for (pid,) in cursor.fetchall()]
    connection.close()
    try:
        return float(sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids))
    except psutil.Error:
        return None


async def follow() -> None:
    """Receive events as the stream of an open page does, until cancelled."""
    from django_eventstream.views import Listener, get_listener_manager

    listener = Listener()
    listener.channels = {"episodes"}
    listener.assign_loop()
    get_listener_manager().add_listener(listener)
    while True:
        await listener.aevent.wait()
        listener.aevent.clear()
        listener.channel_items = {}


async def measure(episodes: int, agents: int, followers: int) -> tuple[Cost, Cost]:
    """Return the cost of the load alone, and with the recorder."""
    from episodes.recording.recorder import Recorder

    following = [asyncio.create_task(follow()) for _ in range(followers)]
    alone = await play(NullRecord(), episodes, agents)
    recorder = Recorder()
    await recorder.start()
    await play(recorder, 200, agents)  # warms up caches and the connection
    before = await asyncio.to_thread(backend_seconds)
    recorded = await play(recorder, episodes, agents)
    after = await asyncio.to_thread(backend_seconds)
    if before is not None and after is not None:
        recorded.server_seconds = after - before
    for task in following:
        task.cancel()
    if await recorder.stop(10.0) or recorder.rejected:
        raise SystemExit("Some rows were not written.")
    return alone, recorded


def show(name: str, alone: Cost, recorded: Cost) -> None:
    count = recorded.episodes
    cost = (recorded.cpu_seconds - alone.cpu_seconds) / count * 1000
    server = (
        "" if recorded.server_seconds is None else f"{recorded.server_seconds / count * 1000:.3f}"
    )
    print(f"{'database':<12}{'recording ms':>14}{'load ms':>10}{'server ms':>12}{'episodes/s':>12}")
    load = alone.cpu_seconds / count * 1000
    print(f"{name:<12}{cost:>14.3f}{load:>10.3f}{server:>12}{count / recorded.seconds:>12.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--episodes", type=int, default=4000)
    parser.add_argument("--agents", type=int, default=32)
    parser.add_argument(
        "--followers", type=int, default=0, help="number of open pages that receive the events"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["ORSWEB_DATA_DIR"] = directory
        os.environ["DJANGO_SETTINGS_MODULE"] = "orsweb.settings"
        import django

        django.setup()
        from django.db import connection, connections
        from django.test.utils import setup_databases, teardown_databases

        from environments.models import Environment, Split

        connections.settings["default"]["TEST"]["NAME"] = (
            f"{directory}/cost.sqlite3" if connection.vendor == "sqlite" else None
        )
        databases = setup_databases(verbosity=0, interactive=False)
        Split.objects.create(
            environment=Environment.objects.create(name="echo"), name="train", type="train"
        )
        try:
            show(
                connection.vendor,
                *asyncio.run(measure(options.episodes, options.agents, options.followers)),
            )
        finally:
            teardown_databases(databases, verbosity=0)


if __name__ == "__main__":
    main()
