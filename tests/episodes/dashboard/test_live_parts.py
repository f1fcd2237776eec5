"""What open pages fetch again is made once between two announcements, for all who see the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.test import Client

from episodes.dashboard import live_parts
from episodes.recording import live
from episodes.recording.live import Live
from tests.stored import make_environment, make_episode

pytestmark = pytest.mark.django_db

REFETCH = {"HX-Request": "true", "X-Refetch": "1"}
PARTS = ["/episodes/", "/?part=now", "/?part=environments"]


@pytest.fixture(autouse=True)
def nothing_made(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(live_parts, "MAX_AGE_SECONDS", 3600.0)
    monkeypatch.setattr(live_parts, "MAX_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(live_parts, "BUSY_SHARE", 100.0)
    live_parts._parts.clear()
    yield
    live_parts._parts.clear()


def fetched(client: Client, part: str, headers: dict[str, str] = REFETCH) -> str:
    return client.get(part, headers=headers).content.decode()


@pytest.mark.parametrize("part", PARTS)
def test_two_pages_get_the_same(client: Client, part: str) -> None:
    first = fetched(client, part)
    make_episode()
    assert fetched(Client(), part) == first


@pytest.mark.parametrize("part", PARTS)
def test_after_an_announcement_it_is_made_again(client: Client, part: str) -> None:
    first = fetched(client, part)
    make_episode()
    Live().tell([])  # without a listener
    assert fetched(client, part) != first


def test_an_announcement_to_listeners_counts_before_they_can_fetch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    announcing, before, seen = Live(), live.announcement(), list[int]()
    monkeypatch.setattr(
        announcing, "_announce", lambda news: (seen.append(live.announcement()), announcing.stop())
    )
    announcing._has_news.set()
    announcing._run()
    assert seen and seen[0] != before


@pytest.mark.parametrize("part", PARTS)
def test_what_a_person_asks_for_is_made_anew(client: Client, part: str) -> None:
    first = fetched(client, part)
    make_episode()
    assert fetched(client, part, {"HX-Request": "true"}) != first


def test_an_old_one_is_made_again(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    first = fetched(client, "/episodes/")
    make_episode()
    monkeypatch.setattr(live_parts, "MAX_AGE_SECONDS", -1.0)
    assert fetched(client, "/episodes/") != first


@pytest.mark.parametrize("part", PARTS)
def test_one_that_takes_long_is_made_again_after_a_pause_which_the_page_is_told(
    client: Client, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    monkeypatch.setattr(live_parts, "MAX_PAUSE_SECONDS", 100.0)
    monkeypatch.setattr(live_parts, "MAX_SHARE", 1e-9)
    first = client.get(part, headers=REFETCH)
    make_episode()
    Live().tell([])  # without a listener
    soon = client.get(part, headers=REFETCH)
    assert soon.content == first.content
    assert [90 < float(one["X-Refetch-Pause"]) <= 100 for one in (first, soon)] == [True, True]
    assert ["X-Refetch-Again" in one for one in (first, soon)] == [False, True]

    (made,) = live_parts._parts.values()
    made.made_at -= 100
    later = client.get(part, headers=REFETCH)
    assert later.content != first.content
    assert "X-Refetch-Again" not in later


def test_the_pause_is_twice_as_long_while_the_process_is_busy(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_parts, "MAX_PAUSE_SECONDS", 100.0)
    monkeypatch.setattr(live_parts, "MAX_SHARE", 1e-9)
    monkeypatch.setattr(live_parts, "LOAD_SECONDS", 0.0)
    monkeypatch.setattr(live_parts, "BUSY_SHARE", 0.0)
    assert 190 < float(client.get("/episodes/", headers=REFETCH)["X-Refetch-Pause"]) <= 200


@pytest.mark.parametrize("part", PARTS)
def test_nobody_gets_what_was_made_for_somebody_who_sees_more(
    client: Client, settings: object, part: str
) -> None:
    settings.ORSWEB_PAGES_NEED_LOGIN = True  # type: ignore[attr-defined]
    make_episode(environment=make_environment("secret", is_private=True))
    see_all, see_some = (
        User.objects.create_user(name, is_superuser=name == "ann") for name in ("ann", "bob")
    )
    texts = list[str]()
    for user in (see_all, see_some):
        browser = Client()
        browser.force_login(user)
        texts.append(fetched(browser, part))
    assert "secret" in texts[0]
    assert "secret" not in texts[1]
