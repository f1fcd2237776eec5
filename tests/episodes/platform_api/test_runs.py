"""Tests of GET /v1/runs: runs of which clients have uploaded all, some or none of the rollouts."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx
import pytest

from episodes.models import Episode
from episodes.rollups.follower import catch_up
from tests.environments.agents.ors.serving import in_database
from tests.episodes.reported import played, reported
from tests.stored import make_run

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.asyncio(loop_scope="module")]

HI = ("tool_call", '{"text":"hi"}', {"name": "echo"})
DONE = ("tool_result", "done", {"reward": 1.0})


def play_three() -> None:
    """Record three episodes of a run, of which one returned 0.5 and is uploaded with a last reward
    of 1."""
    run = make_run("half")
    for number in (1, 2, 3):
        played(number)
    Episode.objects.update(run=run)
    reported("mine", run=run, messages=[HI, DONE], event='{"metadata": {"session_id": "s-2"}}')


async def listed(client: httpx.AsyncClient, path: str = "") -> Any:
    return (await client.get(f"/v1/runs{path}")).json()


async def test_a_run_uploaded_in_part_is_whole(client: httpx.AsyncClient) -> None:
    await in_database(play_three)
    for is_joined in (False, True):  # while the rollout is being uploaded, and afterwards
        if is_joined:
            await in_database(catch_up)
        [run] = (await listed(client))["runs"]
        assert run["num_rollouts"] == 3
        assert run["avg_rollout_reward"] == pytest.approx((1.0 + 0.5 + 0.5) / 3)
        assert (await listed(client, "/half"))["avg_rollout_length"] == 2.0
        rows = await listed(client, "/half/rollouts")
        assert rows["total"] == 3
        assert [row["id"] for row in rows["rollouts"]] == ["mine", "episode-3", "episode-1"]


async def test_pages_of_a_run_follow_each_other(client: httpx.AsyncClient) -> None:
    await in_database(play_three)
    pages = [await listed(client, f"/half/rollouts?limit=1&offset={offset}") for offset in range(4)]
    assert [[row["id"] for row in page["rollouts"]] for page in pages] == [
        ["mine"],
        ["episode-3"],
        ["episode-1"],
        [],
    ]


@pytest.mark.parametrize("text", ["\u00e4pfel", "APFEL", "\ufb01ne", "GRO\u1e9e"])
async def test_a_search_of_runs_depends_on_neither_case_nor_accents(
    client: httpx.AsyncClient, text: str
) -> None:
    await in_database(
        lambda: [
            make_run("Gro\u00dfe \u00c4PFEL, \ufb01ne"),
            make_run("other"),
            make_run("D\u0131\u015f"),
        ]
    )
    searches = {text: ["Gro\u00dfe \u00c4PFEL, \ufb01ne"], "D\u0131s": ["D\u0131\u015f"], "dis": []}
    for search, names in searches.items():
        assert [
            run["name"] for run in (await listed(client, f"?search={quote(search)}"))["runs"]
        ] == names


async def test_a_rollout_of_another_run_leaves_the_episode_in_its_own(
    client: httpx.AsyncClient,
) -> None:
    await in_database(play_three)
    await in_database(
        lambda: reported("else", run=make_run("other"), event='{"metadata": {"session_id": "s-1"}}')
    )
    await in_database(catch_up)
    assert (await listed(client, "/half"))["num_rollouts"] == 3
    assert (await listed(client, "/other"))["num_rollouts"] == 1
