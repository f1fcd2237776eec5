"""Tests of the list of uploaded rollouts: filters, pages, who sees what, export."""

from __future__ import annotations

import json
import re

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.test import AsyncClient, Client
from pytest_django import DjangoAssertNumQueries

from episodes.models import Episode, Play
from episodes.rollups.follower import catch_up
from tests.episodes.reported import played, reported
from tests.rows import each
from tests.stored import make_episode, make_run, make_split, make_task

pytestmark = pytest.mark.django_db(transaction=True)


def listed(client: Client, query: str = "") -> list[str]:
    """Return the ids of the rollouts on the page, in order."""
    answer = client.get(f"/conversations/?{query}")
    assert answer.status_code == 200, answer.content
    return re.findall(r'data-href="/conversations/([^"]*)/"', answer.content.decode())


FOUND = [
    ("", ["alone", "guess", "own"]),
    ("environment=echo", ["guess", "own"]),
    ("environment=acme/chess", ["alone"]),
    ("run=grpo-3", ["own"]),
    ("model=m-2", ["alone"]),
    ("joined=no", ["alone"]),
    ("joined=yes", ["own"]),
    ("joined=guess", ["guess"]),
    ("text=four&joined=no", ["alone"]),
    ("run=nope", []),
]


def test_it_filters(client: Client) -> None:
    played(1)
    played(2, inputs=('{"text":"a"}', '{"text":"b"}'))
    played(3, inputs=('{"text":"a"}', '{"text":"b"}'))
    reported("own", run=make_run(), event='{"metadata": {"session_id": "s-1"}}')
    reported("guess", messages=[("tool_call", '{"text":"a"}', {"name": "echo"})])
    reported("alone", environment="acme/chess", environment_name="chess", model="m-2")
    catch_up()
    assert [(query, listed(client, query)) for query, _ in FOUND] == FOUND


@each("query", ["joined=maybe", "after=x", "after=-1", "nope=1", "episode=first"])
def test_it_refuses_what_it_does_not_know(client: Client, query: str) -> None:
    assert client.get(f"/conversations/?{query}").status_code == 400


def test_a_row_has_ending_and_return_of_its_episode(client: Client) -> None:
    episode = played(1)
    reported("own", event='{"metadata": {"session_id": "s-1"}}')
    chess = {"environment": "acme/chess", "environment_name": "chess"}
    reported("alone", [("tool_result", "e4", {"reward": 0.25})], **chess)
    catch_up()
    alone, own = client.get("/conversations/").content.decode().split("<tr data-rollout")[1:]
    assert 'class="marked-return"' in own and "+0.50" in own and 'class="ending"' in own
    assert f'href="/episodes/{episode.pk}/"' in own
    assert "+0.25" in alone and "marked-return" not in alone


def test_pages_follow_each_other(client: Client) -> None:
    for number in range(120):
        reported(f"r-{number}", messages=[])
    found, link = list[str](), "/conversations/?environment=echo"
    while link:
        page = client.get(link).content.decode()
        found += re.findall(r'data-href="/conversations/([^"]*)/"', page)
        nexts = re.findall(r'rel="next" href="([^"]*)"', page)
        link = nexts[0].replace("&amp;", "&") if nexts else ""
    assert found == [f"r-{number}" for number in reversed(range(120))]


def test_a_page_costs_the_same_however_many_rollouts_it_has(
    client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(60):
        reported(f"r-{number}", run=make_run())
    catch_up()
    client.get("/conversations/")
    with django_assert_max_num_queries(8):
        client.get("/conversations/")


def test_titles_are_names_or_else_what_was_played(client: Client) -> None:
    reported("named", name="bisection <1>")
    reported("task", run=make_run(), split="train", task_index=3)
    reported("bare", environment="", environment_name="")
    page = client.get("/conversations/").content.decode()
    assert "bisection &lt;1&gt;</a>" in page
    assert "grpo-3 · echo · train #3</a>" in page
    assert ">bare</a>" in page
    assert (
        "<h1>grpo-3 · echo · train #3</h1>" in client.get("/conversations/task/").content.decode()
    )


def test_figures_of_a_rollout_under_way_are_current(client: Client) -> None:
    reported()
    page = client.get("/conversations/").content.decode()
    assert "being uploaded" in page
    assert '<td class="right number wide-only">6</td>' in page


def test_it_is_linked_from_runs_environments_and_episodes(client: Client) -> None:
    episode = played()
    run = make_run()
    extra = '{"metadata": {"usage": {"prompt_tokens": 1234, "completion_tokens": 5}, "cost": 0.5}}'
    reported(run=run, messages=[("tool_call", '{"text":"hi"}', {"name": "echo", "extra": extra})])
    catch_up()
    page = client.get(f"/runs/{run.pk}/").content.decode()
    assert "/conversations/?run=grpo-3" in page
    assert "1,234 in · 5 out tokens · cost 0.5000" in page
    assert "/conversations/?environment=echo" in client.get("/environments/echo/").content.decode()
    replay = client.get(f"/episodes/{episode.pk}/").content.decode()
    assert 'href="/conversations/r-1/"' in replay
    assert "1,234 in · 5 out tokens · cost 0.5000" in replay


def test_an_episode_that_is_played_blind_is_hidden_with_its_rollout(client: Client) -> None:
    user = User.objects.create_superuser("alice", password="x")
    client.force_login(user)
    episode = make_episode(status="running", cause="", player="human", key_label="@alice")
    Play.objects.create(episode=episode, user=user, is_blind=True)
    reported("hidden", episode=episode, joined_by="session", is_summarised=True, key_label="@alice")
    assert listed(client) == []
    assert client.get("/conversations/hidden/").status_code == 403
    Episode.objects.filter(pk=episode.pk).update(status="ended")
    assert listed(client) == ["hidden"]


async def test_conversations_are_exported(async_client: AsyncClient) -> None:
    await sync_to_async(reported)("alone", environment_name="chess")
    await sync_to_async(reported)("empty", messages=[])
    answer = await async_client.get("/conversations/export")
    content = b"".join([piece async for piece in answer.streaming_content])  # type: ignore[attr-defined]
    rows = [json.loads(line) for line in content.splitlines()]
    assert [row["rollout"] for row in rows] == ["alone"]
    assert rows[0]["messages"][2]["reasoning_content"] == "It must be four."
    assert (await async_client.get("/conversations/export?rollout=empty")).status_code == 404
    assert (await async_client.get("/conversations/export?joined=maybe")).status_code == 400


def test_a_rollout_without_an_index_is_called_by_the_place_of_its_task(client: Client) -> None:
    episode = played()
    make_split(
        make_task(environment=episode.environment), episode.task, environment=episode.environment
    )
    Episode.objects.update(split=None, task_index=None)
    reported("own", run=make_run(), event='{"metadata": {"session_id": "s-1"}}')
    catch_up()
    for address in ("/conversations/", "/conversations/own/"):
        assert "grpo-3 · echo · train #1" in client.get(address).content.decode(), address
