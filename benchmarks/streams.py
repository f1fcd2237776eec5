"""What event streams cost an agent: p99 of its calls and of `/health`, without streams, while
STREAMS open, and beside them once they are open.

They are opened at once. A process follows one episode by all of them and makes a call in it every
second, which is sent to each. To open a stream costs about what a page of the API costs, and
streams open one after another.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from statistics import median
from time import perf_counter, sleep

from benchmarks.load import Load, drive
from benchmarks.servers import ENV, ROOT, Workshop

STREAMS = 600
ROUNDS = 3
MIN_SECONDS = 12.0
LOAD = Load(agents=4, interval_seconds=0.02)
OPEN_SECONDS = LOAD.warmup_seconds + 2
"""Time after which the streams are opened beside a load, whose process has begun to measure."""
HEALTH_SECONDS = 0.02
MAX_RATIOS = {"opening": 8.0, "open": 2.0}
"""Allowed p99 by p99 without streams. A thread works 7 ms to open one, and calls wait for the
interpreter."""
SESSION = {"X-Session-ID": "followed", "Content-Type": "application/json"}


def measure(workshop: Workshop, seconds: float) -> bool:
    """Print the latencies; return whether all streams have opened and the agents' p99 is within the
    targets."""
    kinds = ("none", *MAX_RATIOS)
    calls: dict[str, list[float]] = {kind: [] for kind in kinds}
    health: dict[str, list[float]] = {kind: [] for kind in kinds}
    is_right = True
    for kind in kinds * ROUNDS:
        with workshop.serving([f"echo={ENV}"]) as (port, _, process), ExitStack() as stack:
            follower = stack.enter_context(
                _following(port, 0 if kind == "open" else OPEN_SECONDS, kind != "none")
            )
            if follower is not None and kind == "open":
                is_right &= _have_opened(follower)
            durations = stack.enter_context(_asking(port))
            load = replace(
                LOAD, seconds=max(seconds, MIN_SECONDS), port=port, processes={"server": process}
            )
            sample = drive(load)
            is_right &= not sample.errors
            if follower is not None and kind == "opening":
                is_right &= _have_opened(follower)
        calls[kind].append(sample.p99_ms)
        health[kind].append(sorted(durations)[int(len(durations) * 0.99)] * 1000)
    print(
        f"\nstreams: {STREAMS} streams of events follow an episode while {LOAD.agents} agents play"
    )
    for name, latencies in (("calls", calls), ("/health", health)):
        none, opening, are_open = (median(latencies[kind]) for kind in kinds)
        print(
            f"  p99 of {name}: {none:.1f} ms without, {opening:.1f} ms while they open, "
            f"{are_open:.1f} ms beside them"
        )
    for kind, most in MAX_RATIOS.items():
        ratio = median(calls[kind]) / median(calls["none"])
        is_right &= ratio <= most
        verdict = "PASS" if ratio <= most else "FAIL"
        print(
            f"  {verdict}  p99 of calls, streams {kind}: {ratio:.1f}x (target: at most {most:g}x)"
        )
    return is_right


@contextmanager
def _following(
    port: int, wait_seconds: float, has_streams: bool
) -> Iterator[subprocess.Popen[str] | None]:
    """Open the streams after `wait_seconds`, in a process that says when all are open; without
    streams, yield None."""
    if not has_streams:
        yield None
        return
    command = [sys.executable, "-m", "benchmarks.streams", str(port), str(wait_seconds)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as follower:
        try:
            yield follower
        finally:
            follower.kill()


def _have_opened(follower: subprocess.Popen[str]) -> bool:
    """Wait until all streams are open; return False if the process ended before."""
    assert follower.stdout is not None
    return follower.stdout.readline().strip() == f"{STREAMS} opened"


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
    sleep(float(sys.argv[2]))
    asyncio.run(_follow(int(sys.argv[1])))
