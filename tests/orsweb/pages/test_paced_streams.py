"""The first streams of a client open at once, further ones in turns, with rests between."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import httpx

from orsweb.pages.paced_streams import AT_ONCE, REST_SECONDS, PacedStreams, StreamTurns
from tests.server import LiveServer

NEVER = 3600.0
FURTHER = 5


class Client:
    """One of the clients of an application, in whose `opening` their streams open."""

    def __init__(self, app: Streams, name: str) -> None:
        self._app, self._name = app, name
        self.streams: list[asyncio.Task[None]] = []

    def ask(self, count: int = 1, kind: str = "http", path: str = "/events/") -> None:
        headers = [(b"x-api-key", self._name.encode())]
        scope = {"type": kind, "path": path, "headers": headers, "client": ("192.0.2.1", 1)}
        for _ in range(count):
            served = self._app.served(scope, self._name, self._app.sent)
            self.streams.append(asyncio.ensure_future(served))


class Streams:
    """An application whose streams stay open; `opened` names their clients, in order."""

    def __init__(self, rest_seconds: float) -> None:
        self.opened: list[str] = []
        self.served = PacedStreams(self._app, StreamTurns(AT_ONCE, rest_seconds))
        self.gate = asyncio.Event()  # closed, it keeps streams opening
        self.gate.set()
        self._has_changed = asyncio.Event()

    async def _app(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        await self.gate.wait()
        await send(receive)
        await asyncio.Event().wait()

    async def sent(self, name: Any) -> None:
        self.opened.append(name)
        self._has_changed.set()

    async def until_opened(self, count: int) -> None:
        async with asyncio.timeout(30):
            while len(self.opened) < count:
                self._has_changed.clear()
                await self._has_changed.wait()


async def test_the_first_streams_of_a_client_do_not_wait_behind_those_of_another() -> None:
    app = Streams(rest_seconds=NEVER)
    many, few = Client(app, "many"), Client(app, "few")
    many.ask(AT_ONCE + FURTHER)
    await app.until_opened(AT_ONCE + 1)  # and the turn of the first further one
    few.ask(AT_ONCE - 1)
    few.ask(kind="websocket", path="/ws/play/1/")
    many.ask(path="/episodes/")
    await app.until_opened(2 * AT_ONCE + 2)
    assert app.opened[AT_ONCE + 1 :] == ["few"] * AT_ONCE + ["many"]


async def test_turns_go_to_clients_with_fewer_streams_first() -> None:
    app = Streams(rest_seconds=0.0)
    many, few = Client(app, "many"), Client(app, "few")
    many.ask(AT_ONCE)
    few.ask(AT_ONCE)
    await app.until_opened(2 * AT_ONCE)
    app.gate.clear()
    many.ask(FURTHER)
    few.ask(2, kind="websocket", path="/ws/play/1/")
    await asyncio.sleep(0)
    app.gate.set()
    await app.until_opened(2 * AT_ONCE + FURTHER + 2)
    turns = app.opened[2 * AT_ONCE :]
    assert turns == ["many", "few", "many", "few", "many", "many", "many"]


async def test_a_client_that_leaves_takes_no_turn_from_others() -> None:
    app = Streams(rest_seconds=NEVER)
    leaving, other = Client(app, "leaving"), Client(app, "other")
    other.ask(AT_ONCE)
    await app.until_opened(AT_ONCE)
    app.gate.clear()
    leaving.ask(AT_ONCE + FURTHER)
    other.ask()
    await asyncio.sleep(0)
    for stream in reversed(leaving.streams):  # those that wait before the one whose turn it is
        stream.cancel()
    await asyncio.wait(leaving.streams)
    app.gate.set()
    await app.until_opened(AT_ONCE + 1)
    assert app.opened == ["other"] * (AT_ONCE + 1)
    leaving.ask(AT_ONCE)  # they are counted no longer
    await app.until_opened(2 * AT_ONCE + 1)


async def test_a_client_that_leaves_when_its_turn_comes_hands_it_on() -> None:
    app = Streams(rest_seconds=NEVER)
    client = Client(app, "one")
    app.gate.clear()
    client.ask(AT_ONCE + 3)
    await asyncio.sleep(0)
    first, second, _ = client.streams[AT_ONCE:]
    # in the iteration of the loop in which it would go on
    first.add_done_callback(lambda _: asyncio.get_running_loop().call_soon(second.cancel))
    first.cancel()
    await asyncio.wait([first, second])
    app.gate.set()
    await app.until_opened(AT_ONCE + 1)


async def test_threads_take_short_turns_while_a_stream_opens() -> None:
    usual, app = sys.getswitchinterval(), Streams(rest_seconds=NEVER)
    client = Client(app, "one")
    app.gate.clear()
    client.ask(2)
    await asyncio.sleep(0)
    assert sys.getswitchinterval() < usual / 2
    app.gate.set()
    await app.until_opened(2)
    assert sys.getswitchinterval() == usual


def test_streams_of_a_server_open_in_turns() -> None:
    with LiveServer("tests.envs:Echo") as server, httpx.Client(base_url=server.url) as client:
        began = time.monotonic()
        for _ in range(AT_ONCE + FURTHER):
            request = client.build_request("GET", "/events/?channel=episodes")
            assert client.send(request, stream=True).status_code == 200
        assert time.monotonic() - began >= 0.9 * (FURTHER - 1) * REST_SECONDS
