"""`restart`: how long live sessions of the bundled environments wait for a server that was killed
and started again.

Each of 200 sessions has made one to five calls. As soon as the new server listens, all send their
next request at once: a call, but the programs of `code` and `shell` are not run again, because they
would wait for each other on any server.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import time
from collections.abc import Mapping
from statistics import median
from typing import Any

from benchmarks.agents import session_id
from benchmarks.client import is_complete
from benchmarks.servers import Workshop

SESSIONS = 200
MAX_CALLS = 5
MAX_LAST_SECONDS = 2.5
"""`ors-sdk` gives up about 3 s after its server has gone."""
AT_ONCE = 16
"""Sessions that are opened at the same time."""
MAX_SECONDS = 120.0
_JSON = "Content-Type: application/json\r\n"

CALLS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "math": ("submit", {"answer": "a word, which does not end the episode"}),
    "guess": ("guess", {"number": -1}),
    "web": ("read", {}),
    "chart": ("zoom", {"x": 0, "y": 0, "width": 200, "height": 200}),
    "maze": ("move", {"direction": "up"}),
    "code": ("run", {"code": "print(sum(range(1000)))"}),
    "shell": ("bash", {"command": "date >> dates.txt; cat dates.txt | wc -l"}),
}
"""A call of each environment that does not end its episode."""
NEXT: Mapping[str, tuple[str, Mapping[str, Any]] | None] = {
    **CALLS,
    "code": None,
    "shell": ("read_file", {"path": "dates.txt"}),
}
"""The request after the restart: a call, or None for the prompt."""


def measure(workshop: Workshop, _seconds: float) -> bool:
    """Print when the first, the middle and the last session is answered; return whether the target
    is met."""
    environments = [name for name, _ in zip(itertools.cycle(CALLS), range(SESSIONS), strict=False)]
    with workshop.serving([]) as (port, directory, pid):
        sessions = asyncio.run(_opened(port, environments))
        os.kill(pid, signal.SIGKILL)
    with workshop.serving([], directory, is_awaited=False) as (port, _, _):
        waits = asyncio.run(_continued(port, sessions))
    first, last = min(waits), max(waits)
    print(
        f"\nrestart: {SESSIONS} live sessions of {len(CALLS)} environments; seconds from listening "
        "again to the answer"
    )
    print(f"  first {first:.2f}, median {median(waits):.2f}, last {last:.2f}")
    for name in CALLS:
        of_class = [
            wait
            for wait, (environment, _) in zip(waits, sessions, strict=True)
            if environment == name
        ]
        print(f"  {name:<6} {min(of_class):.2f} to {max(of_class):.2f}")
    print(
        f"  {'PASS' if last <= MAX_LAST_SECONDS else 'FAIL'}  the last one (target: "
        f"{MAX_LAST_SECONDS} s)"
    )
    return last <= MAX_LAST_SECONDS


async def _opened(port: int, environments: list[str]) -> list[tuple[str, bytes]]:
    """Open a session of each environment, make one to five calls in it, and return environments and
    ids."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def open_one(number: int, environment: str) -> tuple[str, bytes]:
        async with turn:
            sid = session_id(await _ask(port, "POST", "/create_session", b"", {}))
            await _ask(
                port,
                "POST",
                "/create",
                sid,
                {"split": "train", "index": number, "env_name": environment},
            )
            for _ in range(number % MAX_CALLS + 1):
                await _call(port, environment, sid, *CALLS[environment])
            return environment, sid

    return await asyncio.gather(*itertools.starmap(open_one, enumerate(environments)))


async def _continued(port: int, sessions: list[tuple[str, bytes]]) -> list[float]:
    """Make a call in each session as soon as the server listens; return the seconds until each is
    answered."""
    while True:
        try:
            _, probe = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.002)
        else:
            probe.close()
            break
    began = time.monotonic()

    async def continue_one(environment: str, sid: bytes) -> float:
        if (call := NEXT[environment]) is None:
            await _ask(port, "GET", f"/{environment}/prompt", sid)
        else:
            await _call(port, environment, sid, *call)
        return time.monotonic() - began

    return await asyncio.gather(*itertools.starmap(continue_one, sessions))


async def _call(
    port: int, environment: str, sid: bytes, name: str, arguments: Mapping[str, Any]
) -> None:
    answer = await _ask(
        port, "POST", f"/{environment}/call", sid, {"name": name, "input": arguments}
    )
    if b'"ok":' not in answer and b'"ok": ' not in answer:
        raise RuntimeError(f"No result of {environment}: {answer[-500:]!r}")


async def _ask(
    port: int, method: str, path: str, sid: bytes, body: Mapping[str, Any] | None = None
) -> bytes:
    """Return the whole answer."""
    content = b"" if body is None else json.dumps(body).encode()
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: "
        f"text/event-stream\r\n{'' if body is None else _JSON}"
    )
    own = b"X-Session-ID: " + sid + b"\r\n" if sid else b""
    async with asyncio.timeout(MAX_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head.encode() + own + b"Content-Length: %d\r\n\r\n" % len(content) + content)
        answer = b""
        while not is_complete(answer):
            if not (data := await reader.read(2**20)):
                raise RuntimeError(
                    f"The server closed the connection of {path} after {answer[-500:]!r}"
                )
            answer += data
        writer.close()
    if not answer.startswith(b"HTTP/1.1 200 "):
        raise RuntimeError(f"{path}: {answer[:500]!r}")
    return answer
