"""A person's stream of an episode ends when the person may not read the episode any more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import httpx
import pytest
import pytest_asyncio
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client
from django_eventstream.views import get_listener_manager

from environments.models import Environment
from episodes.models import Episode
from episodes.recording.news import channel_of
from tests.environments.agents.ors.conftest import db
from tests.environments.agents.ors.serving import fresh_id, in_database, serving
from tests.people import member
from tests.rows import each

__all__ = ["db"]
pytestmark = pytest.mark.asyncio(loop_scope="module")

LAB = {"X-API-Key": "lab-key-0123"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(db: None) -> AsyncIterator[httpx.AsyncClient]:
    hosted = [f"{name}=tests.envs:Echo" for name in LOSSES]
    async with serving(*hosted, ORSWEB_API_KEYS={"lab": "lab-key-0123"}) as running:
        yield running


def cookie_of(name: str) -> str:
    pages = Client()
    pages.force_login(member("viewer", name=name))
    return f"sessionid={pages.cookies['sessionid'].value}"


def log_out(name: str) -> None:
    Session.objects.all().delete()


def deactivate(name: str) -> None:
    User.objects.filter(username=name).update(is_active=False)


def leave_groups(name: str) -> None:
    User.objects.get(username=name).groups.clear()


def hide(name: str) -> None:
    Environment.objects.filter(name=name).update(is_private=True)


LOSSES: dict[str, Callable[[str], None]] = {
    "logout": log_out,
    "deactivation": deactivate,
    "groupless": leave_groups,
    "hidden": hide,
}
"""What people may lose, by the name of the person and of the environment that they watch."""


@each("name", LOSSES)
async def test_it_ends_once_the_person_may_not_read_the_episode(
    client: httpx.AsyncClient, name: str
) -> None:
    session = {**LAB, "X-Session-ID": fresh_id()}
    await client.post(
        "/create", json={"env_name": name, "split": "train", "index": 0}, headers=session
    )
    headers = {"Cookie": await in_database(lambda: cookie_of(name))}
    episode = await in_database(lambda: Episode.objects.get(session_id=session["X-Session-ID"]).pk)
    stream = asyncio.create_task(client.get(f"/api/episodes/{episode}/events", headers=headers))
    await until(lambda: channel_of(episode) in get_listener_manager().listeners_by_channel)
    await step(client, session, "before")
    await in_database(lambda: LOSSES[name](name))
    deadline = time.monotonic() + 60
    while not stream.done():
        assert time.monotonic() < deadline
        await step(client, session, "after")
        await asyncio.sleep(0.05)
    assert stream.result().status_code == 200 and "event: ended" not in stream.result().text
    await client.post("/delete", headers=session)


async def step(client: httpx.AsyncClient, session: dict[str, str], text: str) -> None:
    body = {"name": "echo", "input": {"text": text}}
    assert (await client.post("/call", json=body, headers=session)).status_code == 200


async def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
