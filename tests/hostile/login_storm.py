"""How long agents wait for calls while people log in: `python -m tests.hostile.login_storm`.

It starts a server, measures calls of agents while it is quiet, and again while logins with wrong
passwords arrive, each from an address of its own, so that none of them is locked out.
"""

from __future__ import annotations

import asyncio
import os
import re
import statistics
import tempfile
import time
from collections import Counter
from dataclasses import dataclass

import httpx

from tests.server import SHARED_DIR, LiveServer
from tests.warm_interpreter import SLOW_HASHES

KEY = {"X-API-Key": "0123456789"}
KEYS = {"ORSWEB_API_KEYS": "lab:0123456789"}
AGENTS = 8
LOGINS = 24
SECONDS = 3.0
PAUSE_SECONDS = 0.05
"""What an agent thinks between two calls."""


@dataclass(frozen=True, slots=True)
class StormReport:
    quiet_seconds: float
    """Median duration of a call without logins."""
    storm_seconds: float
    """Median duration of a call during them."""
    answers: Counter[int]
    """Number of answers to logins by status."""


async def play(client: httpx.AsyncClient, seconds: float) -> list[float]:
    """Open an episode and call its tool for so long; return how long each call took."""
    session = (await client.post("/create_session", headers=KEY)).json()["sid"]
    headers = {**KEY, "X-Session-ID": session}
    await client.post(
        "/create", headers=headers, json={"env_name": "echo", "task_spec": {}, "secrets": {}}
    )
    taken, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
        begun = time.monotonic()
        answer = await client.post(
            "/echo/call", headers=headers, json={"name": "echo", "input": {"text": "hello"}}
        )
        assert answer.status_code == 200, answer.text
        taken.append(time.monotonic() - begun)
        await asyncio.sleep(PAUSE_SECONDS)
    return taken


async def log_in(client: httpx.AsyncClient, number: int, over: asyncio.Event) -> list[int]:
    """Send wrong passwords until the storm is over; return the statuses."""
    page = await client.get("/accounts/login/")
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text)
    form = {
        "username": f"nobody{number}",
        "password": "wrong",
        "csrfmiddlewaretoken": token[1] if token else "",
    }
    found = list[int]()
    while not over.is_set():
        headers = {"X-Forwarded-For": f"10.{number}.{len(found) // 250}.{len(found) % 250}"}
        found.append(
            (await client.post("/accounts/login/", data=form, headers=headers)).status_code
        )
        form["username"] = f"nobody{number}-{len(found)}"
    return found


async def measure(url: str, *, logins: int, seconds: float = SECONDS) -> StormReport:
    """Measure quiet calls, then calls during `logins` concurrent logins."""
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, timeout=60, limits=limits) as agents:
        quiet = await _calls(agents, seconds)
        people = [httpx.AsyncClient(base_url=url, timeout=60) for _ in range(logins)]
        over = asyncio.Event()
        storm = asyncio.gather(*(log_in(one, number, over) for number, one in enumerate(people)))
        await asyncio.sleep(min(seconds, 0.5))
        loud = await _calls(agents, seconds)
        over.set()
        answers = Counter(status for one in await storm for status in one)
        await asyncio.gather(*(one.aclose() for one in people))
    return StormReport(statistics.median(quiet), statistics.median(loud), answers)


async def _calls(client: httpx.AsyncClient, seconds: float) -> list[float]:
    return [
        taken
        for one in await asyncio.gather(*(play(client, seconds) for _ in range(AGENTS)))
        for taken in one
    ]


def main() -> None:
    os.environ.setdefault(SHARED_DIR, tempfile.mkdtemp())
    with LiveServer("tests.envs:Echo", env={**KEYS, SLOW_HASHES: "1"}) as server:
        report = asyncio.run(measure(server.url, logins=LOGINS))
    times = report.storm_seconds / report.quiet_seconds
    print(f"{AGENTS} agents, p50 of a call: quiet {report.quiet_seconds * 1000:.1f} ms")
    print(
        f"with {LOGINS} logins at once: {report.storm_seconds * 1000:.1f} ms, {times:.1f} times "
        "as long"
    )
    print(f"answers to logins: {dict(report.answers)}")


if __name__ == "__main__":
    main()
