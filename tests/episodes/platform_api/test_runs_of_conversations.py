"""Tests of which run an uploaded conversation belongs to where several have the name that its
client says."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from episodes.models import Episode, Run
from episodes.rollups.follower import catch_up
from tests.environments.agents.ors.serving import in_database
from tests.episodes.platform_api.uploading import message, rollout, stored, upload
from tests.episodes.reported import played

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.asyncio(loop_scope="module")]
FIRST, SECOND = "tiny", "tiny (2)"
CHOICES = "2 are named tiny: give one of tiny (2), tiny as runName, or its orsweb_run_id"


def begin_two(minutes_ago: float, **second: Any) -> None:
    """Begin two runs of a title. The first played some minutes ago, the second plays now."""
    moment = datetime.now(UTC)
    for number, values in enumerate(
        ({"model": "a", "own_id": "x"}, {"model": "b", "own_id": "y", **second}), 1
    ):
        run, _ = Run.objects.begin("tiny", created=moment, **values)
        played(number, inputs=(f'{{"text":"{number}"}}',))
        Episode.objects.filter(pk=number).update(run=run)
    Episode.objects.filter(pk=1).update(created=moment - timedelta(minutes=minutes_ago))


async def uploaded(client: httpx.AsyncClient, **fields: Any) -> tuple[str | None, str]:
    """Upload a conversation, and return the name of its run and its problem."""
    start = rollout("r", **{"runName": "tiny", "timestamp": int(time.time() * 1000), **fields})
    call = message("r", 0, "tool_call", name="echo", callId="c", content='{"text":"1"}')
    assert (await upload(client, start, call)).json()["stored"] == 2
    row = await stored("r")
    return row.run.name if row.run else None, row.problem


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"metadata": {"session_id": "s-1"}}, FIRST),
        ({"metadata": {"session_id": "s-2"}}, SECOND),
        ({"session_id": "s-1"}, FIRST),
        ({"metadata": {"orsweb_run_id": "x"}}, FIRST),
        ({"orsweb_run_id": "y"}, SECOND),
        ({"orsweb_run_id": "z"}, "tiny (3)"),
        ({"runName": SECOND}, SECOND),
        ({"run_info": {"model_name": "a"}}, FIRST),
    ],
)
async def test_a_session_an_id_or_the_model_says_the_run(
    client: httpx.AsyncClient, fields: dict[str, Any], name: str
) -> None:
    await in_database(lambda: begin_two(minutes_ago=1))
    assert await uploaded(client, **fields) == (name, "")


@pytest.mark.parametrize(
    ("minutes_ago", "second", "name"),
    [
        (60, {}, SECOND),
        (60, {"state": "ended"}, SECOND),  # uploads come soon after the end
        (1, {}, None),
        (1, {"state": "ended"}, None),
    ],
)
async def test_the_only_open_run_is_chosen_and_else_none(
    client: httpx.AsyncClient, minutes_ago: float, second: dict[str, Any], name: str | None
) -> None:
    await in_database(lambda: begin_two(minutes_ago, **second))
    run, problem = await uploaded(client)
    assert run == name and problem == ("" if name else f"no run was chosen, as {CHOICES}")


async def test_no_run_is_chosen_long_after_all_have_ended(client: httpx.AsyncClient) -> None:
    await in_database(lambda: begin_two(60, state="ended"))
    await in_database(
        lambda: Episode.objects.update(created=datetime.now(UTC) - timedelta(hours=2))
    )
    run, problem = await uploaded(client)
    assert run is None and CHOICES in problem


@pytest.mark.parametrize("minutes_ago", [1, 30])
async def test_its_episode_decides_once_it_is_found(
    client: httpx.AsyncClient, minutes_ago: float
) -> None:
    await in_database(lambda: begin_two(minutes_ago))
    await uploaded(client, environment="acme/echo")
    await in_database(catch_up)
    row = await stored("r")
    assert row.run is not None
    assert (row.episode_id, row.joined_by, row.run.name, row.problem) == (1, "calls", FIRST, "")


async def test_a_run_that_the_client_names_stays(client: httpx.AsyncClient) -> None:
    await in_database(lambda: begin_two(minutes_ago=1))
    await uploaded(client, environment="acme/echo", runName=SECOND)
    await in_database(catch_up)
    row = await stored("r")
    assert row.run is not None and (row.run.name, row.joined_by) == (SECOND, "")
