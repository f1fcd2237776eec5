"""Playing as a browser does, with the ASGI application in this process and the test database.

async with hosting("tests.envs:Echo") as browser:
    pk = await start_play(browser, "echo")
    async with open_tab(browser, pk) as tab:
        await tab.call("echo", text="hello")
        step = await tab.receive("step")
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from channels.testing import WebsocketCommunicator

from episodes.models import Play
from episodes.people.reader_threads import readers
from orsweb import asgi
from tests.environments.agents.ors.serving import in_database, serving

WAIT_SECONDS = 60
HOST = b"localhost"


class Tab:
    """A browser tab with an open socket."""

    def __init__(self, communicator: WebsocketCommunicator) -> None:
        self._communicator = communicator

    async def send(self, kind: str, **members: Any) -> None:
        await self._communicator.send_to(text_data=json.dumps({"type": kind, **members}))

    async def send_text(self, text: str) -> None:
        await self._communicator.send_to(text_data=text)

    async def call(
        self, tool: str, *, task_id: str = "", anyway: bool = False, **arguments: Any
    ) -> str:
        """Call a tool; return the task_id."""
        task_id = task_id or str(uuid.uuid4())
        await self.send("call", tool=tool, input=arguments, task_id=task_id, anyway=anyway)
        return task_id

    async def receive(self, kind: str) -> dict[str, Any]:
        """Return the next message of that type; others are skipped."""
        while (message := await self.next())["type"] != kind:
            pass
        return message

    async def next(self) -> dict[str, Any]:
        return json.loads(await self._communicator.receive_from(WAIT_SECONDS))  # type: ignore[no-any-return]

    async def close(self) -> None:
        await self._communicator.disconnect(timeout=WAIT_SECONDS)


@asynccontextmanager
async def hosting(*specifications: str, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a browser for a server that hosts `specifications`. `settings` override those of
    Django."""
    async with serving(*specifications, **settings) as browser:
        try:
            yield browser
        finally:
            readers().close()  # their threads have connections to the test's database
            readers.cache_clear()


async def send_form(browser: httpx.AsyncClient, **form: str) -> httpx.Response:
    page = await browser.get("/play/")
    [token] = set(re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text))
    return await browser.post("/play/", data={"csrfmiddlewaretoken": token, **form})


async def start_play(browser: httpx.AsyncClient, environment: str, **form: str) -> int:
    """Start a play, by default of the first task in train; return the id of its episode."""
    answer = await send_form(
        browser,
        environment=environment,
        **{"split": "train", "pick": "number", "number": "0", **form},
    )
    assert answer.status_code == 302, answer.text
    return int(answer.headers["Location"].split("/")[2])


def communicator(
    browser: httpx.AsyncClient, pk: int, after: int = -1, **changes: Any
) -> WebsocketCommunicator:
    """Return a communicator; `changes` are the `host`, `origin` (bytes) or `client` of the
    connection."""
    cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items()).encode()
    origin = changes.get("origin", b"http://" + HOST)
    headers = [(b"host", changes.get("host", HOST)), (b"origin", origin), (b"cookie", cookies)]
    made = WebsocketCommunicator(asgi.application, f"/ws/play/{pk}/?after={after}", headers=headers)
    made.scope["client"] = changes.get("client", ["127.0.0.1", 5])
    return made


@asynccontextmanager
async def open_tab(browser: httpx.AsyncClient, pk: int, after: int = -1) -> AsyncIterator[Tab]:
    """Yield a tab that is connected to the play."""
    socket = communicator(browser, pk, after)
    is_open, _ = await socket.connect(timeout=WAIT_SECONDS)
    assert is_open
    tab = Tab(socket)
    try:
        yield tab
    finally:
        await tab.close()


async def play_of(pk: int) -> Play:
    """Return the row of a play, with its episode."""
    return await in_database(
        lambda: Play.objects.select_related("episode__environment", "user").get(pk=pk)
    )
