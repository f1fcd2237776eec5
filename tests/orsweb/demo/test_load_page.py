"""The overview of an empty server, and its button that loads demo data while the server runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from unittest.mock import Mock

import httpx
import pytest
from django.db import connection
from django.test import Client

from environments.cluster.membership import DEMO, LOCKS, fresh_connection
from environments.database import background_jobs
from environments.errors import Draining, NotPlaying
from episodes.figures.summary_cover import STILL_COUNTED
from episodes.models import Episode
from episodes.rollups.follower import catch_up
from orsweb.demo import load_page
from orsweb.demo.script import SHARES
from tests.environments.agents.ors.serving import serving
from tests.episodes.ended import end_episodes
from tests.people import client_of
from tests.stored import make_run

pytestmark = pytest.mark.django_db(transaction=True)
DEMO_URL = "/operations/demo/"
MAX_WAIT_SECONDS = 60.0


@pytest.fixture(autouse=True)
def no_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the jobs of other tests."""
    monkeypatch.setattr(background_jobs, "_jobs", {})


async def load(client: httpx.AsyncClient) -> str:
    """Press the button, wait for the job and return what the page says then."""
    await client.get("/")
    form = {"csrfmiddlewaretoken": client.cookies["csrftoken"]}
    answer = await client.post(DEMO_URL, data=form, headers={"Origin": "http://localhost"})
    assert answer.headers["location"] == DEMO_URL
    assert await asyncio.to_thread(background_jobs.jobs()[0].wait, MAX_WAIT_SECONDS)
    return (await client.get(DEMO_URL)).text


def press(client: Client) -> str:
    """Press the button and return what the page says once the job has ended."""
    assert client.post(DEMO_URL).headers["Location"] == DEMO_URL
    assert background_jobs.jobs()[0].wait(MAX_WAIT_SECONDS)
    return client.get(DEMO_URL).content.decode()


async def test_it_plays_once_beside_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_page, "EPISODES", 40)
    async with serving("environments.builtin.guess:Guess") as client:
        texts, counts = [], []
        for _ in range(2):
            texts.append(await load(client))
            counts.append(await Episode.objects.acount())
    assert counts[0] == counts[1] > 20
    assert all("Demo data is loaded." in text for text in texts)
    assert "/admin/episodes/episode/remove/?query=player%3Dscript" in texts[0]


async def test_without_an_environment_of_the_demo_it_says_so() -> None:
    async with serving("tests.envs:Echo") as client:
        assert "this server hosts none of them" in await load(client)


@pytest.fixture
def running() -> Iterator[background_jobs.Job]:
    """A job that has played 3 of 8 episodes until the test is over."""
    has_begun, is_over = threading.Event(), threading.Event()

    def work(progress: background_jobs.Progress) -> None:
        progress(3, 8)
        has_begun.set()
        is_over.wait()

    job = background_jobs.start("Load demo data", work, owner="", subject="demo")
    has_begun.wait()
    yield job
    is_over.set()
    job.wait(MAX_WAIT_SECONDS)


def test_a_second_press_shows_the_progress_of_the_first(
    client: Client, running: background_jobs.Job
) -> None:
    assert client.post(DEMO_URL).headers["Location"] == DEMO_URL
    assert background_jobs.jobs() == [running]
    text = client.get(DEMO_URL, {"part": "state"}).content.decode()
    assert "3 of 8" in text and 'hx-trigger="every 1s"' in text and "<form" not in text


def test_two_jobs_of_a_process_do_not_play_at_once(client: Client) -> None:
    with load_page.LOADING:
        assert "is being loaded already" in press(client)


if connection.vendor == "postgresql":

    def test_two_servers_do_not_play_at_once(client: Client) -> None:
        other = fresh_connection("default")
        try:
            with other.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_lock(%s, %s)", [LOCKS, DEMO])
            assert "Another server of this database" in press(client)
        finally:
            other.close()
        assert "does not serve environments" in press(client)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (NotPlaying(), "try again once the server has started"),
        (Draining(), "shutting down"),
        (TimeoutError(), "not played within 600 s"),
    ],
)
def test_what_keeps_the_demo_from_playing_is_said(
    error: Exception, sentence: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_page, "ask_service", Mock(side_effect=error))
    assert sentence in press(client)
    assert not load_page.LOADING.locked()


def test_an_empty_server_says_what_it_is_and_what_to_do_first(client: Client) -> None:
    text = client.get("/").content.decode()
    assert "<b>orsweb</b> serves environments to agents" in text
    assert "Load demo data" in text and f'action="{DEMO_URL}"' in text


def test_it_waits_for_the_figures(client: Client) -> None:
    end_episodes(*[(1.0, {"run": make_run(next(iter(SHARES)))})] * 30)
    state = client.get(DEMO_URL, {"part": "state"}).content.decode()
    assert STILL_COUNTED in state and 'hx-trigger="every 1s"' in state
    catch_up()
    assert "every 1s" not in client.get(DEMO_URL, {"part": "state"}).content.decode()


def test_only_operators_load_demo_data() -> None:
    viewer = client_of("viewer")
    assert "Load demo data" not in viewer.get("/").content.decode()
    assert viewer.get(DEMO_URL).status_code == viewer.post(DEMO_URL).status_code == 403
