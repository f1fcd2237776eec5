"""What open pages cost the agents: CPU per episode with 4 browsers on Episodes and 4 on Overview,
and without any.

A process sends what `static/orsweb/live.js` sends: it reads the page and its event stream, and
fetches each part again at most once in the pause of the part, or in a longer one that the response
asks for. Meanwhile agents play, and something always happens.
"""

from __future__ import annotations

import html
import http.client
import re
import subprocess
import sys
import threading
import time
from statistics import median
from typing import NamedTuple

from benchmarks.load import Load, Sample
from benchmarks.publishing import following
from benchmarks.scenarios import drive
from benchmarks.servers import ROOT, Workshop

PAGES = ("/episodes/", "/")
VIEWERS = 8
ROUNDS = 3
WARMUP_SECONDS = 5
"""Time in which the pages are opened, whose first loads are not what is measured."""
MAX_SHARE = 0.05

_PART = re.compile(r'data-refetch="([^"]+)"(?:[^>]*data-refetch-pause="([\d.]+)")?')


def measure(workshop: Workshop, seconds: float) -> bool:
    """Print both costs; return whether the difference is within the target and nothing failed."""
    samples: dict[int, list[Sample]] = {0: [], VIEWERS: []}
    for _ in range(ROUNDS):
        for viewers, found in samples.items():
            found.append(_sample(workshop, seconds, viewers))
    alone, viewed = (
        median(one.cpu_ms_per_episode["server"] for one in found) for found in samples.values()
    )
    rates = [median(one.episodes_per_second for one in found) for found in samples.values()]
    print(f"\nviewers: {VIEWERS} browsers on Episodes and Overview while 32 agents play")
    print(f"  without: {rates[0]:.0f} episodes/s, {alone:.2f} CPU ms an episode")
    print(f"  with: {rates[1]:.0f} episodes/s, {viewed:.2f} CPU ms an episode, the pages' included")
    share = 1 - rates[1] / rates[0]
    verdict = "PASS" if share <= MAX_SHARE else "FAIL"
    print(f"  {verdict}  loss of the agents' speed: {share:.0%} (target: at most {MAX_SHARE:.0%})")
    return share <= MAX_SHARE and not any(one.errors for found in samples.values() for one in found)


def _sample(workshop: Workshop, seconds: float, viewers: int) -> Sample:
    with workshop.started("ours") as (port, processes):
        browsers = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.viewers", str(port), str(viewers)], cwd=ROOT
        )
        try:
            return drive(
                Load(seconds=seconds, warmup_seconds=WARMUP_SECONDS, port=port, processes=processes)
            )
        finally:
            browsers.kill()
            browsers.wait()


def _view(port: int, page: str) -> None:
    with following(port):
        text = _fetched(http.client.HTTPConnection("127.0.0.1", port, timeout=60), page).text
        for address, pause in _PART.findall(text):
            threading.Thread(
                target=_fetch_again, args=(port, html.unescape(address), float(pause or 1))
            ).start()
        threading.Event().wait()


def _fetch_again(port: int, address: str, pause: float) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while True:
        asked = _fetched(connection, address, {"HX-Request": "true", "X-Refetch": "1"}).asked_pause
        time.sleep(max(pause, asked))


class Fetched(NamedTuple):
    """What a page gets: the text, and the seconds that the server asks it to wait before it fetches
    this again."""

    text: str
    asked_pause: float


def _fetched(
    connection: http.client.HTTPConnection, address: str, headers: dict[str, str] | None = None
) -> Fetched:
    connection.request("GET", address, headers=headers or {})
    answer = connection.getresponse()
    text = answer.read().decode()
    if answer.status != 200:
        raise RuntimeError(f"{address} returned status {answer.status}")
    return Fetched(text, float(answer.headers.get("X-Refetch-Pause", 0)))


if __name__ == "__main__":
    for number in range(int(sys.argv[2])):
        threading.Thread(target=_view, args=(int(sys.argv[1]), PAGES[number % len(PAGES)])).start()
