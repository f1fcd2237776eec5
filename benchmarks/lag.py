"""How far curves, statistics and search stay behind agents who play at full speed, and what
following costs.

`python -m benchmarks lag --seconds 600` plays for ten minutes.
"""

from __future__ import annotations

import re
import threading
import time
from urllib.request import urlopen

import psutil

from benchmarks.load import Load, drive
from benchmarks.meters import Reading
from benchmarks.report import print_target
from benchmarks.servers import Workshop

MIN_SECONDS = 60.0
"""What never catches up is behind by more than the target after this time."""
MAX_BEHIND_SECONDS = 5.0
MAX_PERCENT = 10.0
"""Most that the follower may take of the CPU time of the server, its own included."""
SETTLING_SECONDS = 10.0
"""Time before CPU time is counted, in which the follower's process loads its code."""

_BEHIND = re.compile(r'^orsweb_follower_behind_episodes\{part="(\w+)"\} (\S+)$', re.MULTILINE)


def measure(workshop: Workshop, seconds: float) -> bool:
    """Print how far each part was behind at the end; return whether all are within the target."""
    seconds = max(seconds, MIN_SECONDS)
    with workshop.started("ours") as (port, processes):
        behind, readings = dict[str, float](), list[Reading]()
        watched = {**processes, "follower": _follower_of(processes["server"])}

        def read() -> None:
            readings.append(Reading.of(watched))
            behind.update(_behind(port))

        # the second time just before the agents stop
        timers = [threading.Timer(moment, read) for moment in (SETTLING_SECONDS, seconds)]
        for timer in timers:
            timer.start()
        sample = drive(Load(seconds=seconds, port=port, processes=processes))
        for timer in timers:
            timer.join()
        end = time.monotonic()
        while any(_behind(port).values()) and time.monotonic() < end + seconds:
            time.sleep(0.1)
        rest = time.monotonic() - end
    rate, cost = sample.episodes_per_second, readings[1] - readings[0]
    follower, server = cost.watched["follower"], cost.watched["server"]
    print(
        f"\nlag: {seconds:g} s at full speed, {rate:.0f} episodes/s, "
        f"{sample.cpu_ms_per_episode['server']:.2f} CPU ms"
    )
    for part, episodes in sorted(behind.items(), key=lambda item: -item[1]):
        print(f"  {part:<20}{episodes / rate:>8.1f} s behind")
    print(f"  all caught up {rest:.1f} s after the end")
    print(
        f"  the follower takes {1000 * follower / cost.wall / rate:.3f} CPU ms an episode, "
        f"{follower / cost.wall:.1%} of a core"
    )
    results = [
        print_target(
            "the follower's part of the server's CPU", 100 * follower / server, MAX_PERCENT, "%"
        ),
        print_target(
            "the last part is behind", max(behind.values()) / rate, MAX_BEHIND_SECONDS, "s"
        ),
    ]
    return all(results) and not sample.errors


def _follower_of(server: int) -> int:
    """Return the process of the server's follower, which starts with the server."""
    family = psutil.Process(server).children(recursive=True)
    return int(
        next(
            process.pid
            for process in family
            if "episodes.rollups.follower_process" in process.cmdline()
        )
    )


def _behind(port: int) -> dict[str, float]:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:  # nosec B310 # our own
        return {part: float(count) for part, count in _BEHIND.findall(answer.read().decode())}
