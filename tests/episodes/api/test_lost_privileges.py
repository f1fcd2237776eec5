"""Streams and sockets on which nothing happens end soon after a person or a key has lost what they
were opened with."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
import pytest_asyncio
from django.contrib.auth.models import User
from django.test import Client
from django_eventstream.views import get_listener_manager

from environments.keys.keyring import ring
from environments.keys.stored_keys import change_key, make_key, revoke_key
from environments.models import ApiKey, Environment, Split
from episodes.models import Episode
from episodes.people.reader_threads import readers
from episodes.recording.news import STUDIES, WITHOUT, channel_of
from orsweb.accounts.hashed_sessions import SessionStore
from tests.environments.agents.ors.conftest import db
from tests.environments.agents.ors.serving import fresh_id, in_database, serving
from tests.episodes.people.playing import communicator, start_play
from tests.people import member

__all__ = ["db"]
pytestmark = pytest.mark.asyncio(loop_scope="module")

MAX_TICKS = 100
"""Tenths of the ten seconds that are promised. They are longer while the server, which has this
loop, gets no core."""
Loss = Callable[[str, str], Any]


def log_out(name: str, cookie: str) -> None:
    SessionStore(cookie).delete()


def deactivate(name: str, cookie: str) -> None:
    User.objects.filter(username=name).update(is_active=False)


def leave_groups(name: str, cookie: str) -> None:
    User.objects.get(username=name).groups.clear()


def hide(name: str, cookie: str) -> None:
    Environment.objects.filter(name=name).update(is_private=True)


def seal(name: str, cookie: str) -> None:
    Split.objects.filter(environment__name=name).update(is_sealed=True, is_sealed_for_people=True)


LOSSES: dict[str, Loss] = {
    **{"logout": log_out, "inactive": deactivate, "groupless": leave_groups},
    **{"hidden": hide, "sealed": seal},
}
"""What people may lose, by the name of the person and of the environment that they play and
watch."""

KEY_LOSSES: dict[str, tuple[list[str], Callable[[ApiKey], Any]]] = {
    "revoked": (["play", "read"], lambda row: revoke_key(row, "ada")),
    "unread": (["play", "read"], lambda row: change_key(row, scopes=["play"])),
    "demoted": (["admin"], lambda row: change_key(row, scopes=["play", "read"])),
    "barred": (["play", "read"], lambda row: hide("barred", "")),
}
"""The scopes of keys and what these lose, by the name of the key and of the environment that it
plays."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(db: None) -> AsyncIterator[httpx.AsyncClient]:
    hosted = [f"{name}=tests.envs:Echo" for name in (*LOSSES, *KEY_LOSSES)]
    async with serving(*hosted, ORSWEB_API_KEYS={"lab": "lab-key-0123"}) as running:
        yield running
    readers().close()
    readers.cache_clear()


async def test_what_a_person_has_open_ends(client: httpx.AsyncClient) -> None:
    # a stream that opens after `hide` is one without the environment
    all_open = asyncio.Barrier(len(LOSSES))
    await asyncio.gather(
        *[lose_as_person(client, name, loss, all_open) for name, loss in LOSSES.items()]
    )


async def test_what_a_key_has_open_ends(client: httpx.AsyncClient) -> None:
    await asyncio.gather(*[lose_as_key(client, name, *loss) for name, loss in KEY_LOSSES.items()])


async def lose_as_person(
    client: httpx.AsyncClient, name: str, loss: Loss, all_open: asyncio.Barrier
) -> None:
    cookie = await in_database(lambda: session_of(name))
    async with httpx.AsyncClient(
        transport=client._transport,
        base_url=client.base_url,
        cookies={"sessionid": cookie},
        timeout=60,
    ) as browser:
        episode = await start_play(browser, name)
        socket = communicator(browser, episode)
        assert (await socket.connect(timeout=60))[0]
        addresses = [
            f"/api/episodes/{episode}/events",
            f"/events/?channel=episode-{episode}",
            "/events/?channel=episodes",
        ]
        streams = [asyncio.create_task(browser.get(address)) for address in addresses]
        await until(
            lambda: (
                followers(channel_of(episode)) == 2
                and followers(f"{WITHOUT}{STUDIES}") == len(LOSSES)
            )
        )
        await all_open.wait()
        await in_database(lambda: loss(name, cookie))
        *answers, _ = await soon(asyncio.gather(*streams, until_closed(socket)))
        assert not any("event: ended" in answer.text for answer in answers)


async def lose_as_key(
    client: httpx.AsyncClient, name: str, scopes: list[str], lose: Callable[[ApiKey], Any]
) -> None:
    row, text = await in_database(lambda: make_key(name, scopes=scopes))
    headers = {"X-API-Key": text, "X-Session-ID": fresh_id()}
    task = {"env_name": name, "split": "train", "index": 0}
    await in_database(ring.read)
    assert (await client.post("/create", json=task, headers=headers)).status_code == 200
    episode = await in_database(lambda: Episode.objects.get(key_label=name).pk)
    stream = asyncio.create_task(client.get(f"/api/episodes/{episode}/events", headers=headers))
    await until(lambda: followers(channel_of(episode)) == 1)
    await in_database(lambda: lose(row))
    assert "event: ended" not in (await soon(stream)).text


async def soon(ends: asyncio.Future[Any]) -> Any:
    for _ in range(MAX_TICKS):
        if (await asyncio.wait([ends], timeout=0.1))[0]:
            return ends.result()
    raise AssertionError("it goes on")


async def until_closed(socket: Any) -> None:
    while (await socket.receive_output(60))["type"] != "websocket.close":
        pass


def session_of(name: str) -> str:
    pages = Client()
    pages.force_login(member("viewer", "player", name=name))
    return pages.cookies["sessionid"].value


def followers(channel: str) -> int:
    return len(get_listener_manager().listeners_by_channel.get(channel, ()))


async def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
