"""Tests of the snippets that the list of episodes shows of what was searched for."""

from __future__ import annotations

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from episodes.models import Episode
from episodes.rollups.follower import catch_up
from episodes.search import index, snippets
from episodes.search.snippets import snippet_in, snippets_of
from episodes.search.words import terms_of
from tests.episodes.api.asking import get
from tests.episodes.reported import played as played_echo
from tests.episodes.reported import reported
from tests.episodes.search.test_index import HOSTILE
from tests.rows import each
from tests.stored import make_blob, make_episode, make_step

pytestmark = pytest.mark.django_db


def played(*texts: str, **values: object) -> Episode:
    episode = make_episode(steps_count=len(texts), **values)
    for text in texts:
        make_step(episode, text)
    index.index([episode.pk])
    return episode


def marked(text: str, query: str) -> str | None:
    """Return the snippet of `text` with brackets around matches."""
    found = snippet_in(text, terms_of(query))
    return found and "".join(f"[{one.text}]" if one.is_match else one.text for one in found.pieces)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("fox", "The quick brown [Fox], caf\u00e9 \u6771\u4eac a.txt"),
        ("FOX quick", "The [quick] brown [Fox], caf\u00e9 \u6771\u4eac a.txt"),
        ('"quick brown" the', "[The] [quick brown] Fox, caf\u00e9 \u6771\u4eac a.txt"),
        ("bro*", "The quick [brown] Fox, caf\u00e9 \u6771\u4eac a.txt"),
        ("cafe \u4eac", "The quick brown Fox, [caf\u00e9] \u6771[\u4eac] a.txt"),
        ("a.txt", "The quick brown Fox, caf\u00e9 \u6771\u4eac [a.txt]"),
        ('"fox quick"', None),
        ("dog", None),
    ],
)
def test_it_marks_what_the_index_matches(query: str, expected: str | None) -> None:
    assert marked("The quick brown Fox, caf\u00e9 \u6771\u4eac a.txt", query) == expected


def test_it_is_the_text_as_it_is_read() -> None:
    assert (
        marked("\x1b[31mFAI\x1b[0mLED\x1b[0m\n\n  at\u202e 3", "failed")
        == "[FAILED] at\u27e6RLO\u27e7 3"
    )


def test_of_a_long_text_it_is_the_place_with_the_most_terms() -> None:
    text = "fox " + "x " * 500 + "fox and dog " + "y " * 500
    found = marked(text, "fox dog") or ""
    assert "x [fox] and [dog] y" in found and len(found) < 300
    assert found.startswith("\u2026 x ") and found.endswith("y \u2026")


def test_the_first_step_with_all_terms_is_chosen() -> None:
    episode = played("a fox", "nothing", "fox and dog", "dog and fox")
    assert snippets_of([episode], "fox dog")[episode.pk].step == 2


def test_longer_words_are_no_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snippets, "MAX_STEPS_READ", 0)
    episode = played("errors", "no\nERROR: none", "Error_3")
    for query, step in (("error", 1), ('"error 3"', 2), ("err*", 0)):
        assert snippets_of([episode], query)[episode.pk].step == step


@pytest.mark.parametrize("text", ["errors \x1b[1mERR\x1b[0mOR", "err\u00f6r"])
def test_what_the_database_does_not_see_is_found_by_reading(text: str) -> None:
    episode = played("errors", text)
    assert snippets_of([episode], "error")[episode.pk].step == 1


def test_large_outputs_and_prompts_are_read() -> None:
    output = '{"blocks": [{"type": "text", "text": "a fox"}]}'
    episode = make_episode(steps_count=1, prompt=make_blob('[{"type": "text", "text": "a dog"}]'))
    make_step(episode, output="", output_blob=make_blob(output))
    assert snippets_of([episode], "fox")[episode.pk].step == 0
    assert snippets_of([episode], "dog")[episode.pk].step is None


def test_the_work_is_bounded(
    monkeypatch: pytest.MonkeyPatch, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    episodes = [played("fox", "fox") for _ in range(3)]
    with django_assert_max_num_queries(4):
        assert len(snippets_of(episodes, "fox")) == 3
    monkeypatch.setattr(snippets, "MAX_STEPS", 4)
    monkeypatch.setattr(snippets, "MAX_STEPS_READ", 1)
    assert len(snippets_of(episodes, "fox")) == 2


@each(
    "text",
    [*HOSTILE, "a b " * 500, '"' + "a b " * 500 + '"', *(f"[{sign}]*a" for sign in "?*[^%_")],
)
def test_no_search_is_an_error(text: str) -> None:
    episode = played("a b fox", text.replace('"', ""))
    snippets_of([episode], text)


def test_the_list_links_to_the_step_and_executes_nothing(client: Client) -> None:
    episode = played("nothing", "<script>alert('fox')</script>")
    text = client.get("/episodes/?text=fox").content.decode()
    assert f'<a href="/episodes/{episode.pk}/?step=1#step-1">step 1</a>' in text
    assert "&lt;script&gt;alert(&#x27;<mark>fox</mark>&#x27;)&lt;/script&gt;" in text


def test_the_api_has_the_snippet() -> None:
    played("nothing", "a fox")
    [row] = get("episodes?text=fox")["results"]
    assert row["snippet"] == {"step": 1, "message": None, "text": "a fox", "matches": [[2, 5]]}
    assert get("episodes")["results"][0]["snippet"] is None


@pytest.mark.django_db(transaction=True)
def test_an_uploaded_message_has_a_snippet_that_leads_into_the_timeline(client: Client) -> None:
    episode = played_echo()
    rollout = reported(event='{"metadata": {"session_id": "s-1"}}')
    catch_up()
    message = rollout.messages.get(kind="reasoning")
    page = client.get("/episodes/?text=four").content.decode()
    assert f'href="/episodes/{episode.pk}/messages/{message.pk}/">message 2</a>' in page
    assert "It must be <mark>four</mark>." in page
    place = client.get(f"/episodes/{episode.pk}/messages/{message.pk}/")
    assert place["Location"] == f"/episodes/{episode.pk}/?step=0#message-{message.pk}"
    [row] = get("episodes?text=four")["results"]
    assert row["snippet"]["message"] == 2 and row["snippet"]["step"] is None


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "text", ["\u00e4pfel", "APFEL", "A\u0308pfel", "grosse", "GRO\u1e9eE", "\ufb01nden"]
)
def test_messages_are_found_and_shown_whatever_their_case_and_accents(
    client: Client, text: str
) -> None:
    reported(messages=[("user_message", "Wo \ufb01nden wir Gro\u00dfe \u00c4PFEL?", {})])
    catch_up()
    page = client.get("/conversations/", {"text": text}).content.decode()
    assert "<mark>" in page


@pytest.mark.django_db(transaction=True)
def test_a_rollout_without_an_episode_has_a_snippet(client: Client) -> None:
    rollout = reported()
    catch_up()
    message = rollout.messages.get(kind="assistant_message")
    page = client.get("/conversations/?text=check").content.decode()
    assert (
        f'href="/conversations/r-1/?from=3#message-{message.pk}">message 3</a>' in page
        and "<mark>check</mark>" in page
    )
