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
from dataclasses import replace
from statistics import median

from benchmarks.load import Load, Sample, drive
from benchmarks.report import print_target
from benchmarks.servers import ROOT, Workshop

PAGES = ("/episodes/", "/")
VIEWERS = 8
ROUNDS = 3
WARMUP_SECONDS = 5
"""Time in which the pages are opened, whose first loads are not what is measured."""
MAX_PERCENT = 5.0

_PART = re.compile(r'data-refetch="([^"]+)"(?:[^>]*data-refetch-pause="([\d.]+)")?')


def measure(workshop: Workshop, seconds: float) -> bool:
    """Print both costs; return whether the difference is within the target and nothing failed."""
    samples: dict[int, list[Sample]] = {0: [], VIEWERS: []}
    for _ in range(ROUNDS):
        for viewers, rounds in samples.items():
            rounds.append(_sample(workshop, seconds, viewers))
    print(f"\nviewers: {VIEWERS} browsers on Episodes and Overview while 32 agents play")
    rates = []
    for viewers, rounds in samples.items():
        rates.append(median(sample.episodes_per_second for sample in rounds))
        cpu = median(sample.cpu_ms_per_episode["server"] for sample in rounds)
        print(f"  {viewers} browsers: {rates[-1]:.0f} episodes/s, {cpu:.2f} CPU ms an episode")
    is_met = print_target(
        "loss of the agents' speed", 100 * (1 - rates[1] / rates[0]), MAX_PERCENT, "%"
    )
    return is_met and not any(sample.errors for rounds in samples.values() for sample in rounds)


def _sample(workshop: Workshop, seconds: float, viewers: int) -> Sample:
    load = Load(seconds=seconds, warmup_seconds=WARMUP_SECONDS)
    with workshop.started("ours") as (port, processes):
        command = [sys.executable, "-m", "benchmarks.viewers", str(port), str(viewers)]
        with subprocess.Popen(command, cwd=ROOT) as browsers:
            try:
                return drive(replace(load, port=port, processes=processes))
            finally:
                browsers.kill()


def _view(port: int, page: str) -> None:
    events = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    events.request("GET", "/events/?channel=episodes", headers={"Accept": "text/event-stream"})
    stream = events.getresponse()
    text, _ = _fetch(http.client.HTTPConnection("127.0.0.1", port, timeout=60), page)
    for address, pause in _PART.findall(text):
        threading.Thread(
            target=_refetch, args=(port, html.unescape(address), float(pause or 1))
        ).start()
    while stream.read1(65536):
        pass


def _refetch(port: int, address: str, pause: float) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while True:
        _, server_pause = _fetch(connection, address, {"HX-Request": "true", "X-Refetch": "1"})
        time.sleep(max(pause, server_pause))


def _fetch(
    connection: http.client.HTTPConnection, address: str, headers: dict[str, str] | None = None
) -> tuple[str, float]:
    """Return the text, and the seconds that the server asks to wait before the next fetch."""
    connection.request("GET", address, headers=headers or {})
    answer = connection.getresponse()
    text = answer.read().decode()
    if answer.status != 200:
        raise RuntimeError(f"{address} returned status {answer.status}")
    return text, float(answer.headers.get("X-Refetch-Pause", 0))


if __name__ == "__main__":
    for number in range(int(sys.argv[2])):
        threading.Thread(target=_view, args=(int(sys.argv[1]), PAGES[number % len(PAGES)])).start()
