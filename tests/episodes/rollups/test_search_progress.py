"""Pages and the API say how many episodes the text search has indexed, while these are not all."""

from __future__ import annotations

import pytest
from django.db.models import Q
from django.test import Client

from environments.access.privacy import visible
from episodes.models import Progress
from episodes.rollups import search_progress
from tests.episodes.api.asking import get
from tests.stored import make_episode

pytestmark = pytest.mark.django_db


def ended(followed: int, endings: int, **values: str) -> None:
    for number in range(1, endings + 1):
        make_episode(end_number=number, **values)
    Progress.objects.update_or_create(name="text", defaults={"end_number": followed})


def note(client: Client, address: str = "/episodes/?text=fox") -> str:
    return client.get(address).context["search_note"]


@pytest.mark.parametrize(
    ("followed", "words"),
    [
        (-1, "The search index has 0 of 3 episodes so far."),
        (2, "The search index has 2 of 3 episodes so far."),
        (3, ""),
    ],
)
def test_a_search_says_how_many_episodes_are_indexed(client: Client, followed: int, words: str) -> None:
    ended(followed, 3)
    assert note(client) == words == get("episodes?text=fox")["note"]
    assert words in client.get("/episodes/?text=fox").content.decode()


def test_other_filters_do_not_depend_on_the_index(client: Client) -> None:
    ended(0, 1)
    assert note(client, "/episodes/") == get("episodes")["note"] == ""


@pytest.mark.parametrize(
    ("followed", "words"),
    [
        (0, "The search index has 0.0% of the episodes so far."),
        (4, "2 episodes are not in the search index yet."),
        (5, "1 episode is not in the search index yet."),
    ],
)
def test_many_are_not_counted(client: Client, monkeypatch: pytest.MonkeyPatch, followed: int, words: str) -> None:
    monkeypatch.setattr(search_progress, "MAX_COUNTED", 2)
    ended(followed, 6)
    assert note(client) == words


def test_only_episodes_that_the_reader_sees_are_counted() -> None:
    ended(0, 2, key_label="home")
    assert search_progress.search_progress(Q(key_label="lab")) == ""
    assert "2 episodes" in search_progress.search_progress(visible(frozenset()))
