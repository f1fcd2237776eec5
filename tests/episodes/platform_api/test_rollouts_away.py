"""Tests of POST /v1/rollouts while the database is away: what is acknowledged is stored, and the
rest gets 503."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest
import pytest_asyncio
from django.db import connection

from episodes.platform_api import rollouts as rollouts_view
from tests.environments.agents.ors.serving import in_database
from tests.episodes.platform_api.uploading import message, messages_of, upload

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.asyncio(loop_scope="module")]


def rename(table: str, to: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} RENAME TO {to}")


@pytest_asyncio.fixture(loop_scope="module")
async def without_messages(
    client: httpx.AsyncClient,
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Make every write of a message fail, as it does when the database is gone; return what brings
    it back."""
    await in_database(lambda: rename("episodes_rolloutmessage", "taken_away"))
    is_back = False

    async def bring_back() -> None:
        nonlocal is_back
        if not is_back:
            await in_database(lambda: rename("taken_away", "episodes_rolloutmessage"))
        is_back = True

    yield bring_back
    await bring_back()


async def test_it_answers_503_and_stores_the_events_later(
    client: httpx.AsyncClient,
    without_messages: Callable[[], Awaitable[None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rollouts_view, "MAX_WAIT_SECONDS", 0.2)
    events = [message("r-1", position) for position in range(5)]
    answer = await upload(client, *events)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")
    await without_messages()
    monkeypatch.setattr(rollouts_view, "MAX_WAIT_SECONDS", 30.0)
    again = await upload(client, *events)  # as the recorder does after a 503
    assert (again.status_code, again.json()["stored"]) == (200, 5)
    assert [one.index for one in await messages_of("r-1")] == list(range(5))
    assert rollouts_view._pending_bytes == 0


async def test_too_many_waiting_uploads_get_503_at_once(
    client: httpx.AsyncClient,
    without_messages: Callable[[], Awaitable[None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rollouts_view, "MAX_PENDING_BYTES", 2_000)
    waiting = asyncio.create_task(upload(client, message("r-1", 0, content="x" * 1_500)))
    await asyncio.sleep(0)
    while not rollouts_view._pending_bytes:  # noqa: ASYNC110  (set by the view, which has no event for it)
        await asyncio.sleep(0.01)
    answer = await upload(client, message("r-1", 1, content="y" * 1_500))
    assert (answer.status_code, answer.json()["detail"]) == (
        503,
        "Too many uploads wait to be stored; try again.",
    )
    await without_messages()
    assert (await waiting).status_code == 200
    assert [one.index for one in await messages_of("r-1")] == [0]
