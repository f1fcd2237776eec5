"""How far curves, statistics and search stay behind agents who play at full speed, and what
following costs.

`python -m benchmarks lag --seconds 600` plays for ten minutes.
"""

from __future__ import annotations

import http.client
import re
import threading
import time

import psutil

from benchmarks.load import Load
from benchmarks.meters import Reading
from benchmarks.scenarios import drive
from benchmarks.servers import Workshop

MIN_SECONDS = 60.0
MAX_BEHIND_SECONDS = 5.0
MAX_SHARE = 0.1
"""Most that the follower may take of the CPU time of the server, its own included."""
SETTLING_SECONDS = 10.0
"""Time before CPU time is counted, in which the follower's process loads its code."""

_BEHIND = re.compile(r'^orsweb_follower_behind_episodes\{part="(\w+)"\} (\S+)$', re.MULTILINE)


def measure(workshop: Workshop, seconds: float) -> bool:
    """Print how far each part was behind at the end; return whether all are within the target.

    Plays for at least MIN_SECONDS: what never catches up is that far behind by then.
    """
    seconds = max(seconds, MIN_SECONDS)
    with workshop.started("ours") as (port, processes):
        behind, readings = dict[str, float](), list[Reading]()
        watched = {"server": processes["server"], "follower": _follower_of(processes["server"])}

        def read() -> None:
            readings.append(Reading.of(watched))
            behind.update(_behind(port))

        # before the agents stop
        readers = [threading.Timer(moment, read) for moment in (SETTLING_SECONDS, seconds)]
        for reader in readers:
            reader.start()
        sample = drive(Load(seconds=seconds, port=port, processes=processes))
        for reader in readers:
            reader.join()
        began = time.monotonic()
        while any(_behind(port).values()) and time.monotonic() < began + seconds:
            time.sleep(0.1)
        after = time.monotonic() - began
    rate = sample.episodes_per_second
    worst = max(behind.values()) / rate
    print(
        f"\nlag: {seconds:g} s at full speed, {rate:.0f} episodes/s, "
        f"{sample.cpu_ms_per_episode['server']:.2f} CPU ms"
    )
    for part, episodes in sorted(behind.items(), key=lambda one: -one[1]):
        print(f"  {part:<20}{episodes / rate:>8.1f} s behind")
    print(f"  all caught up {after:.1f} s after the end")
    spent = readings[1] - readings[0]
    share, core = (
        spent.watched["follower"] / spent.watched["server"],
        spent.watched["follower"] / spent.wall,
    )
    print(f"  the follower takes {1000 * core / rate:.3f} CPU ms an episode, {core:.1%} of a core")
    print(
        f"  {_word(share <= MAX_SHARE)}  {share:.1%} of the server's CPU (target: at most "
        f"{MAX_SHARE:.0%})"
    )
    is_near = worst <= MAX_BEHIND_SECONDS
    print(
        f"  {_word(is_near)}  the last part is behind by {worst:.1f} s (target: at most "
        f"{MAX_BEHIND_SECONDS:g})"
    )
    return is_near and share <= MAX_SHARE and not sample.errors


def _word(is_met: bool) -> str:
    return "PASS" if is_met else "FAIL"


def _follower_of(server: int) -> int:
    """Return the process of the server's follower, which starts with the server."""
    family = psutil.Process(server).children(recursive=True)
    return int(
        next(one.pid for one in family if "episodes.rollups.follower_process" in one.cmdline())
    )


def _behind(port: int) -> dict[str, float]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    return {part: float(count) for part, count in _BEHIND.findall(text)}
