"""Profile of our server under the `play` load: `python -m benchmarks.profile [--thread NAME]`.

Runs the server in this process with cProfile in its main thread (and in threads whose name starts
with `--thread`), drives it from a load process, and prints the CPU time by thread and the functions
with the most time of their own. The profiler makes Python calls several times slower, so compare
only functions with each other here; `python -m benchmarks` compares servers.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import os
import pstats
import signal
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from types import FrameType
from typing import Any

import psutil

from benchmarks.load import Load, Sample
from benchmarks.scenarios import SCENARIOS, drive


class Profiles:
    """One profiler per watched thread, by the thread's name."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.by_thread: dict[str, cProfile.Profile] = {"MainThread": cProfile.Profile()}
        if prefix:
            threading.setprofile(self._enter)

    def _enter(self, frame: FrameType, event: str, argument: Any) -> None:
        """Handle the first event of a new thread: enable a profiler for it, or none."""
        sys.setprofile(None)
        name = threading.current_thread().name
        if name.startswith(self._prefix):
            self.by_thread[name] = cProfile.Profile()
            self.by_thread[name].enable()

    def show(self, sort: str, lines: int) -> None:
        for name, profile in self.by_thread.items():
            print(f"\n--- {name}")
            pstats.Stats(profile).strip_dirs().sort_stats(sort).print_stats(lines)


def main() -> None:
    options = _options()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "orsweb.settings")
    with tempfile.TemporaryDirectory(prefix="orsweb-profile-") as directory:
        os.environ["ORSWEB_DATA_DIR"] = directory
        profiles = None if options.bare else Profiles(options.thread)
        with suppress(SystemExit):
            _serve(options.environment, lambda port: _drive(port, profiles, options))


def _serve(environment: str, on_ready: Callable[[int], Any]) -> None:
    """Run the server as `manage.py serve` does; `on_ready` returns the coroutine that drives and
    then stops it."""
    import django

    django.setup()
    from django.conf import settings
    from django.core.management import call_command
    from django.db import connection

    from orsweb.server import listening, uvicorn_server

    call_command("migrate", verbosity=0)
    connection.close()
    [listeners] = listening.listen("127.0.0.1", 0)
    settings.ORSWEB_PORT = port = listeners[0].getsockname()[1]
    settings.ORSWEB_ENVIRONMENTS = [environment]
    from orsweb.asgi import agents, application

    tasks = []
    uvicorn_server.run(
        application,
        agents,
        listeners,
        on_ready=lambda: tasks.append(asyncio.ensure_future(on_ready(port))),
    )


async def _drive(port: int, profiles: Profiles | None, options: argparse.Namespace) -> None:
    try:
        scenario = next(scenario for scenario in SCENARIOS if scenario.name == options.scenario)
        load = replace(
            scenario.load, seconds=options.seconds, port=port, processes={"server": os.getpid()}
        )
        warm = replace(load, seconds=load.warmup_seconds, idle_sessions=0)
        await asyncio.to_thread(drive, warm)
        if profiles:
            profiles.by_thread["MainThread"].enable()
        before = _thread_seconds()
        sample = await asyncio.to_thread(drive, load)
        after = _thread_seconds()
        if profiles:
            profiles.by_thread["MainThread"].disable()
        _show_threads(before, after, load, sample)
        if profiles:
            profiles.show(options.sort, options.lines)
    finally:
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGTERM)


def _thread_seconds() -> dict[int, float]:
    """Return the user and system time of each thread by its native id."""
    return {
        thread.id: thread.user_time + thread.system_time for thread in psutil.Process().threads()
    }


def _show_threads(
    before: dict[int, float], after: dict[int, float], load: Load, sample: Sample
) -> None:
    names = {thread.native_id: thread.name for thread in threading.enumerate()}
    episodes = sample.episodes_per_second * (load.seconds + load.warmup_seconds)
    print(f"{sample}\n\napproximate CPU ms per episode by thread")
    for thread_id in sorted(after, key=lambda each: before.get(each, 0.0) - after[each])[:10]:
        milliseconds = (after[thread_id] - before.get(thread_id, 0.0)) * 1000 / episodes
        print(f"{milliseconds:>8.3f}  {names.get(thread_id, thread_id)}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile", description=__doc__)
    parser.add_argument(
        "--environment", default="benchmarks.echo:Echo", help="module:Class to host"
    )
    parser.add_argument(
        "--scenario", default="play", choices=[scenario.name for scenario in SCENARIOS]
    )
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument(
        "--bare", action="store_true", help="print only the CPU time by thread, without a profiler"
    )
    parser.add_argument(
        "--thread", default="", help="also profile threads whose name starts with this"
    )
    parser.add_argument(
        "--sort", default="tottime", help="sort key of pstats: tottime, cumtime, ncalls"
    )
    parser.add_argument("--lines", type=int, default=45)
    return parser.parse_args()


if __name__ == "__main__":
    main()
