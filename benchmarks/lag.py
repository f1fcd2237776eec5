"""How far curves, statistics and search stay behind agents who play at full speed."""

from __future__ import annotations

import http.client
import re
import threading
import time

from benchmarks.load import Load
from benchmarks.scenarios import drive
from benchmarks.servers import Workshop

MIN_SECONDS = 60.0
MAX_BEHIND_SECONDS = 5.0

_BEHIND = re.compile(r'^orsweb_follower_behind_episodes\{part="(\w+)"\} (\S+)$', re.MULTILINE)


def measure(workshop: Workshop, seconds: float) -> bool:
    """Print how far each part was behind at the end; return whether all are within the target.

    Plays for at least MIN_SECONDS: what never catches up is that far behind by then.
    """
    seconds = max(seconds, MIN_SECONDS)
    with workshop.started("ours") as (port, processes):
        behind: dict[str, float] = {}
        reader = threading.Timer(seconds, lambda: behind.update(_behind(port)))  # just before the agents stop
        reader.start()
        sample = drive(Load(seconds=seconds, port=port, processes=processes))
        reader.join()
        began = time.monotonic()
        while any(_behind(port).values()) and time.monotonic() < began + seconds:
            time.sleep(0.1)
        after = time.monotonic() - began
    rate = sample.episodes_per_second
    worst = max(behind.values()) / rate
    print(
        f"\nlag: {seconds:g} s at full speed, {rate:.0f} episodes/s, {sample.cpu_ms_per_episode['server']:.2f} CPU ms"
    )
    for part, episodes in sorted(behind.items(), key=lambda one: -one[1]):
        print(f"  {part:<20}{episodes / rate:>8.1f} s behind")
    print(f"  all caught up {after:.1f} s after the end")
    verdict = "PASS" if worst <= MAX_BEHIND_SECONDS else "FAIL"
    print(f"  {verdict}  the last part is behind by {worst:.1f} s (target: at most {MAX_BEHIND_SECONDS:g})")
    return worst <= MAX_BEHIND_SECONDS and not sample.errors


def _behind(port: int) -> dict[str, float]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    return {part: float(count) for part, count in _BEHIND.findall(text)}
