"""People who play in a browser, as far as the server sees them: form, page, socket, and a call about every second.

Each has a browser of its own and begins another episode when one has ended. A turn is a call from when it is sent until
its step is there; the tool does nothing, so all of it is the server's. Sockets compress, as browsers' do.
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
"""One for all browsers, for it takes longer to make than a page."""
THINK_SECONDS = 0.5, 1.5
TASKS = 100
WAIT_SECONDS = 60.0

_TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="(\w+)"')


class Unexpected(Exception):
    """The server answered something else than it should."""


def begin(players: int, port: int, tally: Tally) -> list[asyncio.Task[None]]:
    """Players, who go on until they are cancelled."""
    loop = asyncio.get_running_loop()
    return [loop.create_task(_play(f"http://127.0.0.1:{port}", number, tally)) for number in range(players)]


async def _play(url: str, number: int, tally: Tally) -> None:
    async with httpx.AsyncClient(base_url=url, timeout=WAIT_SECONDS, verify=_TLS) as browser:
        await asyncio.sleep(random.uniform(0, THINK_SECONDS[1]))
        token, calls = "", random.randint(1, CALLS_PER_EPISODE)  # or all of them would end together
        while tally.is_playing:
            try:
                token = token or await _token(browser)
                await _episode(browser, token, number % TASKS, calls, tally)
                calls = CALLS_PER_EPISODE
            except (Unexpected, httpx.HTTPError, WebSocketException, TimeoutError, OSError) as error:
                tally.fail(f"{type(error).__name__}: {error}"[:500])
                await asyncio.sleep(1.0)


async def _token(browser: httpx.AsyncClient) -> str:
    """Of the forms of that browser, where the first episode is chosen. Later ones begin where one has ended."""
    chooser = await browser.get("/play/?environment=echo")
    token = _TOKEN.search(chooser.text)
    if token is None:
        raise Unexpected(f"no form: {chooser.status_code} {chooser.text[:300]}")
    return token[1]


async def _episode(browser: httpx.AsyncClient, token: str, task: int, calls: int, tally: Tally) -> None:
    """Of `calls` turns. Raises: Unexpected and what the clients raise."""
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
        await _told(socket, "state")
        for left in range(calls - 1, -1, -1):
            await asyncio.sleep(random.uniform(*THINK_SECONDS))
            await _turn(socket, left == 0, tally)
        await _told(socket, "ended")


async def _turn(socket: ClientConnection, is_last: bool, tally: Tally) -> None:
    """Raises: Unexpected."""
    task_id, text = str(uuid.uuid4()), f"I look at door {random.randrange(10**9)} and open it with great care"
    call = {"type": "call", "tool": "echo", "input": {"text": text, "last": is_last}, "task_id": task_id}
    started = perf_counter()
    await socket.send(json.dumps(call))
    step = await _told(socket, "step")
    tally.took(tally.calls, perf_counter() - started)
    tally.answered += tally.is_measuring
    if step["task_id"] != task_id or text not in step["html"]:
        raise Unexpected(f"not the step of the call: {str(step)[:300]}")


async def _told(socket: ClientConnection, kind: Literal["state", "step", "ended"]) -> dict[str, Any]:
    """The next message of that kind. Raises: Unexpected for one that says what is wrong."""
    while True:
        async with asyncio.timeout(WAIT_SECONDS):  # unlike wait_for, it never loses that the player was cancelled
            message: dict[str, Any] = json.loads(await socket.recv())
        if message["type"] == kind:
            return message
        if message["type"] in ("error", "invalid", "ended"):
            raise Unexpected(f"instead of {kind}: {str(message)[:300]}")
