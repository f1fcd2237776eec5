"""Pages and the API say what a search for text leaves out."""

from __future__ import annotations

import pytest
from django.db.models import Q
from django.test import Client

from environments.models import UNRESTRICTED
from environments.models.viewer import visible_environments
from episodes.models import Progress, TranscriptText
from episodes.rollups import search_note
from episodes.search import index
from tests.episodes.api.asking import get
from tests.episodes.reported import reported
from tests.stored import make_episode, make_step

pytestmark = pytest.mark.django_db


def ended(followed: int, endings: int, **values: str) -> None:
    for number in range(1, endings + 1):
        make_episode(end_number=number, **values)
    Progress.objects.update_or_create(name="text", defaults={"end_number": followed})


def note(client: Client, address: str = "/episodes/?text=fox") -> str:
    context = client.get(address).context
    return context["page"].note if "/episodes/" in address else context["search_note"]


@pytest.mark.parametrize(
    ("followed", "words"),
    [
        (-1, "The search index has 0 of 3 episodes so far."),
        (2, "The search index has 2 of 3 episodes so far."),
        (3, ""),
    ],
)
def test_a_search_says_how_many_episodes_are_indexed(
    client: Client, followed: int, words: str
) -> None:
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
def test_many_are_not_counted(
    client: Client, monkeypatch: pytest.MonkeyPatch, followed: int, words: str
) -> None:
    monkeypatch.setattr(search_note, "MAX_COUNTED", 2)
    ended(followed, 6)
    assert note(client) == words


def test_only_episodes_that_the_reader_sees_are_counted() -> None:
    ended(0, 2, key_label="home")
    assert search_note.search_note("fox", Q(key_label="lab")) == ""
    assert "2 episodes" in search_note.search_note("fox", visible_environments(UNRESTRICTED))


def indexed(*texts: str) -> int:
    episode = make_episode(steps_count=len(texts))
    for text in texts:
        make_step(episode, text)
    index.index([episode.pk])
    return episode.pk


def test_it_says_when_more_transcripts_match_than_are_searched(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("MAX_MATCHES", "MAX_LOOKED_AT"):
        monkeypatch.setattr(index, limit, 2)
    for _ in range(2):
        indexed("quick fox")
    indexed("dog")
    for text in ("fox", '"quick fox"'):
        assert (
            note(client, f"/episodes/?text={text}") == "Only the newest 2 transcripts with these "
            "words were searched."
        )
    assert note(client, "/episodes/?text=dog") == note(client, "/episodes/?text=%22%22") == ""


def test_it_says_how_many_transcripts_are_not_indexed_whole(client: Client) -> None:
    indexed("fox")
    assert note(client) == ""
    TranscriptText.objects.update(is_cut=True)
    assert note(client) == "1 transcript is indexed only in part."


def test_it_says_how_many_episodes_still_run(client: Client) -> None:
    make_episode(status="running", cause="", ended=None)
    assert note(client) == "1 running episode is not searched."
    make_episode(status="running", cause="", ended=None)
    assert (
        note(client) == get("episodes?text=fox")["note"] == "2 running episodes are not searched."
    )


def test_it_says_that_phrases_are_near_their_words(client: Client) -> None:
    indexed("fox", "fox " * 20_000)
    assert "a phrase may be missed" in note(client, '/episodes/?text="a+fox"+dog')
    assert note(client, '/episodes/?text="a+fox"') == note(client, "/episodes/?text=a+fox") == ""


def test_the_list_of_rollouts_says_it_too(client: Client) -> None:
    reported("r-1")
    for words in (note(client, "/conversations/?text=fox"), get("rollouts?text=fox")["note"]):
        assert words == "1 conversation is not in the search index yet."
    assert note(client, "/conversations/") == get("rollouts")["note"] == ""
    assert "1 conversation is not" in client.get("/conversations/?text=fox").content.decode()
