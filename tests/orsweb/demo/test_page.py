"""The overview of an empty server, and its button that loads demo data while the server runs."""

from __future__ import annotations

from unittest.mock import Mock

import httpx
import pytest
from django.test import Client

from environments.errors import Draining, NotPlaying
from episodes.models import Episode
from orsweb.demo import page
from tests.environments.agents.ors.serving import serving
from tests.people import client_of

pytestmark = pytest.mark.django_db(transaction=True)
DEMO = "/operations/demo/"


async def load(client: httpx.AsyncClient) -> httpx.Response:
    await client.get("/")
    form = {"csrfmiddlewaretoken": client.cookies["csrftoken"]}
    return await client.post(DEMO, data=form, headers={"Origin": "http://localhost"})


async def test_it_plays_once_beside_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "EPISODES", 8)
    async with serving("environments.builtin.guess:Guess") as client:
        counts = []
        for _ in range(2):
            assert (await load(client)).headers["location"] == "/"
            counts.append(await Episode.objects.acount())
    assert counts[0] == counts[1] > 4


async def test_without_an_environment_of_the_demo_it_says_so() -> None:
    async with serving("tests.envs:Echo") as client:
        answer = await load(client)
    assert answer.status_code == 409 and "this server hosts none of them" in answer.text


def test_a_second_press_plays_nothing_while_the_first_does(client: Client) -> None:
    with page.LOADING:
        answer = client.post(DEMO)
    assert answer.status_code == 409 and "is being loaded" in answer.content.decode()


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (NotPlaying(), "try again once the server has started"),
        (Draining(), "shutting down"),
        (TimeoutError(), "not played within 120 s"),
    ],
)
def test_what_keeps_the_demo_from_playing_is_said(
    error: Exception, sentence: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "ask_service", Mock(side_effect=error))
    answer = client.post(DEMO)
    assert answer.status_code == 503 and sentence in answer.content.decode()
    assert not page.LOADING.locked()


def test_an_empty_server_says_what_it_is_and_what_to_do_first(client: Client) -> None:
    text = client.get("/").content.decode()
    assert "<b>orsweb</b> serves environments to agents" in text
    assert "Load demo data" in text and f'action="{DEMO}"' in text
    assert "takes about half a minute" in text


def test_only_operators_load_demo_data() -> None:
    viewer = client_of("viewer")
    assert "Load demo data" not in viewer.get("/").content.decode()
    assert viewer.post(DEMO).status_code == 403
