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
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.agents import SSE, open_session, post, prompt
from benchmarks.client import Script, Tally
from benchmarks.load import all_ended, connect
from benchmarks.report import print_target
from benchmarks.servers import Workshop

SESSIONS = 200
MAX_CALLS = 5
MAX_LAST_SECONDS = 2.5
"""`ors-sdk` gives up about 3 s after its server has gone."""
CONNECTIONS = 16
"""Sessions that are opened at the same time."""

Call = tuple[str, Mapping[str, Any]]
Session = tuple[str, bytes]
"""Its environment and id."""

CALLS: Mapping[str, Call] = {
    "math": ("submit", {"answer": "a word, which does not end the episode"}),
    "guess": ("guess", {"number": -1}),
    "web": ("read", {}),
    "chart": ("zoom", {"x": 0, "y": 0, "width": 200, "height": 200}),
    "maze": ("move", {"direction": "up"}),
    "code": ("run", {"code": "print(sum(range(1000)))"}),
    "shell": ("bash", {"command": "date >> dates.txt; cat dates.txt | wc -l"}),
}
"""A call of each environment that does not end its episode."""
NEXT: Mapping[str, Call | None] = {
    **CALLS,
    "code": None,
    "shell": ("read_file", {"path": "dates.txt"}),
}
"""The request after the restart: a call, or None for the prompt."""


def measure(workshop: Workshop, _seconds: float) -> bool:
    """Print when the first, the middle and the last session is answered; return whether the target
    is met."""
    tally = Tally()
    with workshop.serving([]) as (port, directory, pid):
        sessions = asyncio.run(_open(port, tally))
        os.kill(pid, signal.SIGKILL)
    with workshop.serving([], directory, is_awaited=False) as (port, _, _):
        waits = asyncio.run(_continue(port, sessions, tally))
    seconds = [seconds for _, seconds in waits]
    print(
        f"\nrestart: {SESSIONS} live sessions of {len(CALLS)} environments; seconds from listening "
        "again to the answer"
    )
    print(f"  first {min(seconds):.2f}, median {median(seconds):.2f}, last {max(seconds):.2f}")
    for name in CALLS:
        of_class = [seconds for environment, seconds in waits if environment == name]
        print(f"  {name:<6} {min(of_class):.2f} to {max(of_class):.2f}")
    if tally.errors:
        print(f"  {tally.errors} ERRORS, the first: {tally.first_error}")
    return (
        print_target("the last session", max(seconds), MAX_LAST_SECONDS, "s") and not tally.errors
    )


async def _open(port: int, tally: Tally) -> list[Session]:
    """Open sessions of all environments in turn, each with one to five calls."""
    sessions, places = list[Session](), list(zip(range(SESSIONS), itertools.cycle(CALLS)))

    def play(part: Sequence[tuple[int, str]]) -> Script:
        for number, environment in part:
            sid = yield from open_session(tally, number, environment.encode())
            for _ in range(number % MAX_CALLS + 1):
                answer, _ = yield _request(environment, sid, CALLS[environment])
                _check(answer, tally)
            sessions.append((environment, sid))

    scripts = [play(places[first::CONNECTIONS]) for first in range(CONNECTIONS)]
    await all_ended(await connect(scripts, tally, port))
    return sessions


async def _continue(
    port: int, sessions: Sequence[Session], tally: Tally
) -> list[tuple[str, float]]:
    """Send the next request of each session as soon as the server listens; return environments and
    the seconds until each is answered."""
    while True:
        try:
            _, probe = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.002)
        else:
            probe.close()
            break
    start, waits = time.monotonic(), list[tuple[str, float]]()

    def play(environment: str, sid: bytes) -> Script:
        answer, _ = yield _request(environment, sid, NEXT[environment])
        waits.append((environment, time.monotonic() - start))
        if NEXT[environment]:
            _check(answer, tally)

    await all_ended(await connect([play(*session) for session in sessions], tally, port))
    return waits


def _request(environment: str, sid: bytes, call: Call | None) -> bytes:
    if call is None:
        return prompt(environment.encode(), sid)
    name, arguments = call
    body = json.dumps({"name": name, "input": arguments}).encode()
    return post(f"/{environment}/call".encode(), SSE, sid, body)


def _check(answer: bytes, tally: Tally) -> None:
    if b'"ok":' not in answer:
        tally.fail(f"not the result of a call: {answer[-500:]!r}")
