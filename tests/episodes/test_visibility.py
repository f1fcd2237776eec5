"""While a blind play runs, no page shows its player the episode or its task; other accounts may
watch."""

from __future__ import annotations

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.test import AsyncClient, Client

from episodes.models import Episode, Play
from episodes.visibility import sight_of
from tests.people import member
from tests.rows import each
from tests.stored import make_episode, make_split, make_step, make_task

pytestmark = pytest.mark.django_db

EVERY = (
    *(
        "/episodes/{}/",
        "/episodes/{}/headline/",
        "/episodes/{}/facts/",
        "/episodes/{}/steps/",
        "/episodes/{}/steps/0/",
    ),
    *(
        "/episodes/{}/steps/0.json",
        "/episodes/{}/task.json",
        "/episodes/{}/rail.json",
        "/episodes/{}/preview/",
    ),
    *(
        "/episodes/{}/find.json?text=42",
        "/episodes/{}/prompt/",
        "/episodes/{}/peers/",
        "/compare/?episodes={},1",
    ),
    *(
        "/episodes/{}/messages/",
        "/episodes/{}/messages.json",
        "/episodes/{}/rollout/",
        "/episodes/{}/conversation/",
    ),
    *(
        "/api/episodes/{}",
        "/api/episodes/{}/steps",
        "/api/episodes/{}/steps/0",
        "/api/episodes/{}/events",
    ),
)
SENTENCE = "once the episode has ended"


@pytest.fixture
def player(client: Client) -> User:
    """The user who is logged in on `client`."""
    found = User.objects.create_superuser("ada")
    client.force_login(found)
    return found


@pytest.fixture
def played(player: User) -> Episode:
    """A running blind play of the user, with a rewarded step."""
    make_episode(pk=1)
    task = make_task({"question": "?", "answer": "secret-azimuth"})
    episode = make_episode(
        pk=2, task=task, player="human", key_label="@ada", status="running", cause=""
    )
    make_step(episode, reward=0.625)
    Play.objects.create(episode=episode, user=player, is_blind=True)
    return episode


def exported(client: Client, address: str) -> str:
    browser = AsyncClient()
    browser.cookies = client.cookies

    async def read() -> bytes:
        answer = await browser.get(address)
        return b"".join([piece async for piece in answer.streaming_content])  # type: ignore[attr-defined]

    return async_to_sync(read)().decode()


@each("address", EVERY)
def test_its_record_is_refused_to_its_player(client: Client, played: Episode, address: str) -> None:
    answer = client.get(address.format(played.pk))
    said = answer.content.decode()
    assert answer.status_code == 403 and SENTENCE in said
    assert "0.625" not in said and "azimuth" not in said


@pytest.mark.parametrize(
    "address", ["/admin/episodes/episode/{}/change/", "/admin/episodes/episode/{}/task.json"]
)
def test_its_record_is_refused_in_the_admin(client: Client, played: Episode, address: str) -> None:
    answer = client.get(address.format(played.pk), follow=True)
    assert "azimuth" not in answer.content.decode() and "0.625" not in answer.content.decode()


@pytest.mark.parametrize("address", ["/tasks/{}/", "/tasks/{}/group/", "/api/tasks/{}"])
def test_its_task_is_refused_to_its_player(client: Client, played: Episode, address: str) -> None:
    answer = client.get(address.format(played.task_id))
    said = answer.content.decode()
    assert answer.status_code == 403 and SENTENCE in said and f"episode {played.pk}" in said
    assert "azimuth" not in said
    client.force_login(member("player", name="bob"))
    assert client.get(address.format(played.task_id)).status_code != 403


@pytest.mark.parametrize("query", ["", "?environment=math", "?environment=math&split=train"])
def test_the_list_of_tasks_does_not_contain_it(client: Client, played: Episode, query: str) -> None:
    make_split(played.task)
    assert "azimuth" not in client.get(f"/api/tasks{query}").content.decode()
    Play.objects.update(is_blind=False)
    assert "azimuth" in client.get(f"/api/tasks{query}").content.decode()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "address", ["/episodes/export?format=jsonl", "/api/episodes/export?format=jsonl"]
)
def test_an_export_does_not_contain_it(client: Client, played: Episode, address: str) -> None:
    lines = exported(client, address)
    assert '"session_id"' in lines and "azimuth" not in lines
    Play.objects.update(is_blind=False)
    assert "azimuth" in exported(client, address)


@pytest.mark.parametrize("address", ["/", "/episodes/"])
def test_a_list_does_not_show_its_return_so_far(
    client: Client, played: Episode, address: str
) -> None:
    assert "0.62" not in client.get(address).content.decode()
    Play.objects.update(is_blind=False)
    assert "+0.63" in client.get(address).content.decode()


@pytest.mark.parametrize(
    "address", ["/episodes/{}/", "/episodes/{}/steps/0.json", "/api/episodes/{}/steps"]
)
def test_others_may_watch(client: Client, played: Episode, address: str) -> None:
    client.force_login(member("player", name="bob"))
    assert client.get(address.format(played.pk)).status_code == 200


def test_the_end_and_a_play_that_is_not_blind_are_shown(client: Client, played: Episode) -> None:
    Episode.objects.filter(pk=played.pk).update(status="ended", cause="finished")
    assert client.get(f"/episodes/{played.pk}/").status_code == 200
    Episode.objects.filter(pk=played.pk).update(status="running", cause="")
    Play.objects.update(is_blind=False)
    assert client.get(f"/api/episodes/{played.pk}").status_code == 200


def test_who_may_make_studies_shares_no_parts_of_pages_with_others() -> None:
    sights = [sight_of(member(group, name=group)) for group in ("viewer", "curator")]
    assert sights[0] != sights[1]
