"""What event streams cost an agent: p99 of its calls and of `/health`, without streams, while
STREAMS open, and beside them once they are open.

They are opened at once. A process follows one episode by all of them and makes a call in it every
second, which is sent to each. All windows of a round are measured on one server.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import select
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from statistics import median
from time import perf_counter

from benchmarks.load import Load, drive
from benchmarks.servers import ENV, ROOT, Workshop

STREAMS = 600
ROUNDS = 2
WINDOWS = 2
"""Without streams and beside them, in each round. While they open there are about seven."""
MIN_SECONDS = 8.0
LOAD = Load(agents=4, interval_seconds=0.02)
HEALTH_SECONDS = 0.02
MAX_RATIO = 2.0
"""Allowed p99 by p99 without streams."""
SESSION = {"X-Session-ID": "followed", "Content-Type": "application/json"}


def measure(workshop: Workshop, seconds: float) -> bool:
    """Print the latencies; return whether all streams have opened and the agents' p99 is within the
    target."""
    calls: dict[str, list[float]] = {"without": [], "while they open": [], "beside them": []}
    health: dict[str, list[float]] = {kind: [] for kind in calls}
    opening_seconds = []
    is_right = True
    for _ in range(ROUNDS):
        with workshop.serving([f"echo={ENV}"]) as (port, _, process):
            load = replace(
                LOAD, seconds=max(seconds, MIN_SECONDS), port=port, processes={"server": process}
            )

            def add_window(kind: str, load: Load = load) -> None:
                nonlocal is_right
                with _asking(load.port) as durations:
                    sample = drive(load)
                is_right &= not sample.errors
                calls[kind].append(sample.p99_ms)
                health[kind].append(sorted(durations)[int(len(durations) * 0.99)] * 1000)

            for _ in range(WINDOWS):
                add_window("without")
            with _following(port) as follower:
                began = perf_counter()
                while not _has_news(follower):
                    add_window("while they open")
                opening_seconds.append(perf_counter() - began)
                for _ in range(WINDOWS):
                    add_window("beside them")
                is_right &= follower.poll() is None
    print(
        f"\nstreams: {STREAMS} streams of events follow an episode while {LOAD.agents} agents play; "
        f"they open within {median(opening_seconds):.0f} s"
    )
    for kind, latencies in calls.items():
        print(
            f"  p99 {kind}: {median(latencies):.1f} ms of calls, {median(health[kind]):.1f} ms of "
            f"/health, medians of {len(latencies)} windows"
        )
    for kind in list(calls)[1:]:
        ratio = median(calls[kind]) / median(calls["without"])
        is_right &= ratio <= MAX_RATIO
        verdict = "PASS" if ratio <= MAX_RATIO else "FAIL"
        print(f"  {verdict}  p99 of calls {kind}: {ratio:.1f}x (target: at most {MAX_RATIO:g}x)")
    return is_right


@contextmanager
def _following(port: int) -> Iterator[subprocess.Popen[str]]:
    """Open the streams in a process that says when all are open.

    It yields to the server and to the agents, because who follows an episode has a machine of
    their own.
    """
    command = ["nice", sys.executable, "-m", "benchmarks.streams", str(port)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as follower:
        try:
            yield follower
        finally:
            follower.kill()


def _has_news(follower: subprocess.Popen[str]) -> bool:
    """Return whether the process has said that all streams are open, or has ended."""
    assert follower.stdout is not None
    return bool(select.select([follower.stdout], [], [], 0.0)[0])


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
        await asyncio.to_thread(
            _asked, port, "POST", "/echo/call", {"name": "echo", "input": {"text": "followed"}}
        )
        await asyncio.sleep(1)


def _asked(
    port: int, method: str, path: str, body: object = None
) -> dict[str, list[dict[str, int]]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, json.dumps(body) if body else None, SESSION)
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{path} returned status {answer.status}")
    return json.loads(text) if path.startswith("/api/") else {}


if __name__ == "__main__":
    asyncio.run(_follow(int(sys.argv[1])))
