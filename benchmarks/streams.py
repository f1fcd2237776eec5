"""What event streams cost an agent: p99 of its calls and of `/health`, without and beside STREAMS.

They are opened at once. A process follows one episode by all of them and makes a call in it every
second, which is sent to each.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from statistics import median
from time import perf_counter, sleep

from benchmarks.load import Load
from benchmarks.scenarios import drive
from benchmarks.servers import ENV, ROOT, Workshop

STREAMS = 600
ROUNDS = 3
MIN_SECONDS = 20.0
"""Time in which the streams open, and then stay open for at least as long."""
LOAD = Load(agents=4, interval_seconds=0.02)
OPEN_SECONDS = LOAD.warmup_seconds + 2
"""Time after which the streams are opened: the load's process has begun to measure."""
HEALTH_SECONDS = 0.02
MAX_RATIO = 2.0
SESSION = {"X-Session-ID": "followed", "Content-Type": "application/json"}


def measure(workshop: Workshop, seconds: float) -> bool:
    """Print the latencies; return whether all streams have opened and the agents' p99 is within the target."""
    calls: dict[bool, list[float]] = {False: [], True: []}
    health: dict[bool, list[float]] = {False: [], True: []}
    is_right = True
    for has_streams in [False, True] * ROUNDS:
        with workshop.serving([f"echo={ENV}"]) as (port, _, process), _asking(port) as durations:
            load = replace(LOAD, seconds=max(seconds, MIN_SECONDS), port=port, processes={"server": process})
            follower = _follower(port) if has_streams else None
            sample = drive(load)
            is_right &= not sample.errors
            if follower is not None:
                follower.kill()
                opened, _ = follower.communicate()
                is_right &= opened.strip() == f"{STREAMS} opened"
        calls[has_streams].append(sample.p99_ms)
        health[has_streams].append(sorted(durations)[int(len(durations) * 0.99)] * 1000)
    print(
        f"\nstreams: {STREAMS} streams of events open at once, and follow an episode, while {LOAD.agents} agents play"
    )
    ratio = median(calls[True]) / median(calls[False])
    for name, latencies in (("calls", calls), ("/health", health)):
        print(
            f"  p99 of {name}: {median(latencies[False]):.1f} ms without, {median(latencies[True]):.1f} ms beside them"
        )
    is_met = is_right and ratio <= MAX_RATIO
    verdict = "PASS" if is_met else "FAIL"
    print(f"  {verdict}  p99 of calls beside them: {ratio:.1f}x (target: at most {MAX_RATIO:g}x)")
    return is_met


def _follower(port: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.streams", str(port)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


@contextmanager
def _asking(port: int) -> Iterator[list[float]]:
    """Ask for `/health` again and again; yields the seconds that each answer takes."""
    durations: list[float] = []
    is_over = threading.Event()

    def ask() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        while not is_over.wait(HEALTH_SECONDS):
            began = perf_counter()
            connection.request("GET", "/health")
            connection.getresponse().read()
            durations.append(perf_counter() - began)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield durations
    finally:
        is_over.set()
        thread.join()


async def _follow(port: int) -> None:
    """Open the streams, print how many there are, and make calls until killed."""
    _asked(port, "POST", "/create", {"env_name": "echo", "split": "train", "index": 0})
    episode = _asked(port, "GET", "/api/episodes")["results"][0]["id"]
    request = f"GET /api/episodes/{episode}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    opened = 0

    async def follow() -> None:
        nonlocal opened
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        await reader.readuntil(b": this is an episode")
        opened += 1
        if opened == STREAMS:
            print(f"{opened} opened", flush=True)
        while await reader.read(65_536):
            pass

    streams = [asyncio.create_task(follow()) for _ in range(STREAMS)]
    while not all(stream.done() for stream in streams):
        await asyncio.to_thread(_asked, port, "POST", "/echo/call", {"name": "echo", "input": {"text": "followed"}})
        await asyncio.sleep(1)


def _asked(port: int, method: str, path: str, body: object = None) -> dict[str, list[dict[str, int]]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, json.dumps(body) if body else None, SESSION)
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{path} returned status {answer.status}")
    return json.loads(text) if path.startswith("/api/") else {}


if __name__ == "__main__":
    sleep(OPEN_SECONDS)
    asyncio.run(_follow(int(sys.argv[1])))
