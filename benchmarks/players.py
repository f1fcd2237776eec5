"""A load of people who play in browsers, as the server sees them: form, page, websocket, and about
one call per second.

Each has a browser of its own and starts another episode when one has ended. The time of a turn is
that from sending a call until its step arrives; the tool takes no time, so all of it is the
server's. Sockets compress, as those of browsers do.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import ssl
import uuid
from time import perf_counter
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from benchmarks.client import Tally

CALLS_PER_EPISODE = 30
_TLS = ssl.create_default_context()
"""Shared by all browsers, because creating it takes longer than a page."""
THINK_SECONDS = 0.5, 1.5
TASKS = 100
MAX_WAIT_SECONDS = 60.0

_TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="(\w+)"')


class Unexpected(Exception):
    """The server sent an unexpected answer."""


def start(players: int, port: int, tally: Tally) -> list[asyncio.Task[None]]:
    """Start the players, who play until they are cancelled."""
    loop = asyncio.get_running_loop()
    return [
        loop.create_task(_play(f"http://127.0.0.1:{port}", number, tally))
        for number in range(players)
    ]


async def _play(url: str, number: int, tally: Tally) -> None:
    async with httpx.AsyncClient(base_url=url, timeout=MAX_WAIT_SECONDS, verify=_TLS) as browser:
        await asyncio.sleep(random.uniform(0, THINK_SECONDS[1]))
        # otherwise all players would end at the same time
        token, calls = "", random.randint(1, CALLS_PER_EPISODE)
        while tally.is_playing:
            try:
                token = token or await _token(browser)
                await _episode(browser, token, number % TASKS, calls, tally)
                calls = CALLS_PER_EPISODE
            except (
                Unexpected,
                httpx.HTTPError,
                WebSocketException,
                TimeoutError,
                OSError,
            ) as error:
                tally.fail(f"{type(error).__name__}: {error}"[:500])
                await asyncio.sleep(1.0)


async def _token(browser: httpx.AsyncClient) -> str:
    """Return the CSRF token of the browser, from the form where the first episode is chosen."""
    chooser = await browser.get("/play/?environment=echo")
    token = _TOKEN.search(chooser.text)
    if token is None:
        raise Unexpected(f"no form: {chooser.status_code} {chooser.text[:300]}")
    return token[1]


async def _episode(
    browser: httpx.AsyncClient, token: str, task: int, calls: int, tally: Tally
) -> None:
    """Play an episode of `calls` turns. Raises: Unexpected, and what the clients raise."""
    form = {"environment": "echo", "split": "train", "pick": "number", "number": str(task)}
    answer = await browser.post("/play/", data={"csrfmiddlewaretoken": token, **form})
    if answer.status_code != 302:
        raise Unexpected(f"no session: {answer.status_code} {answer.text[:300]}")
    page = answer.headers["Location"]
    if (await browser.get(page)).status_code != 200:
        raise Unexpected(f"no page {page}")
    cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    address = f"ws://{urlsplit(str(browser.base_url)).netloc}/ws{page}?after=-1"
    origin: Any = str(browser.base_url).rstrip("/")
    async with connect(address, origin=origin, additional_headers={"Cookie": cookies}) as socket:
        await _next_message(socket, "state")
        for left in range(calls - 1, -1, -1):
            await asyncio.sleep(random.uniform(*THINK_SECONDS))
            await _turn(socket, left == 0, tally)
        await _next_message(socket, "ended")


async def _turn(socket: ClientConnection, is_last: bool, tally: Tally) -> None:
    """Send one call and wait for its step. Raises: Unexpected."""
    task_id, text = (
        str(uuid.uuid4()),
        f"I look at door {random.randrange(10**9)} and open it with great care",
    )
    call = {
        "type": "call",
        "tool": "echo",
        "input": {"text": text, "last": is_last},
        "task_id": task_id,
    }
    started = perf_counter()
    await socket.send(json.dumps(call))
    step = await _next_message(socket, "step")
    tally.add(tally.calls, perf_counter() - started)
    tally.answered += tally.is_measuring
    if step["task_id"] != task_id or text not in step["html"]:
        raise Unexpected(f"not the step of the call: {str(step)[:300]}")


async def _next_message(
    socket: ClientConnection, kind: Literal["state", "step", "ended"]
) -> dict[str, Any]:
    """Wait for the next message of this kind. Raises: Unexpected for a message about an error."""
    while True:
        # unlike wait_for, it never swallows a cancellation
        async with asyncio.timeout(MAX_WAIT_SECONDS):
            message: dict[str, Any] = json.loads(await socket.recv())
        if message["type"] == kind:
            return message
        if message["type"] in ("error", "invalid", "ended"):
            raise Unexpected(f"instead of {kind}: {str(message)[:300]}")
