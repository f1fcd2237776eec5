"""Tests of the page of a rollout: the conversation, and the steps of the episode to which it
belongs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from episodes.models import Run
from episodes.uploads.matching import match_of, rollout_of
from tests.episodes.reported import played, reported
from tests.rows import each

pytestmark = pytest.mark.django_db(transaction=True)


def test_it_shows_a_conversation_without_an_episode(client: Client) -> None:
    reported()
    answer = client.get("/conversations/r-1/")
    page = answer.content.decode()
    assert answer.status_code == 200
    assert "Reported by its client" in page
    assert "This server has no episode of this conversation" in page
    assert "What is &lt;2 + 2&gt;?" in page
    assert page.index("Be brief.") < page.index("It must be four.") < page.index("Let me check.")
    assert '<span class="nowrap">24 characters</span></summary>' in page


def test_it_shows_the_step_of_a_call(client: Client) -> None:
    episode = played()
    reported()
    page = client.get("/conversations/r-1/").content.decode()
    assert f'<a href="/episodes/{episode.pk}/">episode {episode.pk}</a>' in page
    assert 'title="Sum of rewards so far">Σ +0.50<' in page
    assert '<article class="message"' in page and '<h3 class="message-title">Tool call' not in page
    assert "a guess" not in page
    assert "Conversation of the model" in client.get(f"/episodes/{episode.pk}/").content.decode()
    answer = client.get(f"/episodes/{episode.pk}/conversation/")
    assert (answer.status_code, answer.headers["Location"]) == (302, "/conversations/r-1/")


def test_the_printed_address_leads_to_the_page(client: Client) -> None:
    assert client.get("/rollout/r-1").headers["Location"] == "/conversations/r-1/"
    assert client.get("/conversations/nope/").status_code == 404


@each(
    ("former", "address"),
    [
        ("/rollouts/?run=a%20b&text=x", "/conversations/?run=a%20b&text=x"),
        ("/rollouts/a%2Fb%3F/?from=100", "/conversations/a/b%3F/?from=100"),
        ("/rollouts/export?joined=no", "/conversations/export?joined=no"),
    ],
)
def test_former_addresses_redirect_with_their_query(
    client: Client, former: str, address: str
) -> None:
    answer = client.get(former)
    assert (answer.status_code, answer.headers["Location"]) == (301, address)


def test_it_matches_by_session() -> None:
    played(1)
    episode = played(2, inputs=())
    match = match_of(reported(event='{"metadata": {"session_id": "s-2"}}'))
    assert match is not None
    assert (match.episode, match.by) == (episode, "session")


def test_it_matches_by_the_id_of_a_call() -> None:
    played(1)
    episode = played(2)
    match = match_of(reported(messages=[("tool_call", "{}", {"name": "echo", "call_id": "2-0"})]))
    assert match is not None
    assert (match.episode, match.by) == (episode, "call")


def test_it_matches_by_calls_and_says_when_it_guesses() -> None:
    first = played(1)
    played(2, inputs=('{"text":"other"}',))
    rollout = reported()
    match = match_of(rollout)
    assert match is not None
    assert (match.episode, match.by) == (first, "calls")
    played(3)
    match = match_of(rollout)
    assert match is not None
    assert match.is_guess


@pytest.mark.parametrize("hours", [1, -1])
def test_a_client_whose_clock_is_wrong_keeps_its_episode(hours: int) -> None:
    episode = played()
    sent_ms = int((timezone.now() + timedelta(hours=hours)).timestamp() * 1000)
    match = match_of(reported(sent_ms=sent_ms, problem="the client's clock is 3600 s ahead"))
    assert match is not None
    assert (match.episode, match.by) == (episode, "calls")


def test_a_message_of_ten_megabytes_is_shown_in_part(client: Client) -> None:
    reported(
        messages=[("assistant_message", "x" * 10_000_000, {}), ("user_message", "after it", {})]
    )
    page = client.get("/conversations/r-1/").content.decode()
    assert "after it" in page and "9980000" in page.replace(",", "").replace("\u202f", "")
    assert len(page) < 200_000


@pytest.mark.parametrize(
    "fields",
    [
        {"key_label": "alice"},
        {"environment_name": "math"},
        {"received": timezone.now() - timedelta(hours=3)},
    ],
)
def test_it_matches_no_episode_of_others(fields: dict[str, Any]) -> None:
    episode = played()
    assert match_of(reported(**fields)) is None
    assert rollout_of(episode) is None


def test_it_matches_only_the_same_run() -> None:
    played()
    run = Run.objects.create(name="other", created=timezone.now())
    assert match_of(reported(run=run)) is not None  # the episode names no run


def test_it_marks_what_is_unusual(client: Client) -> None:
    reported("odd", messages=[("strange", "", {"problem": "no valid index"})], is_announced=False)
    page = client.get("/conversations/odd/").content.decode()
    assert "Only messages of this conversation have arrived so far" in page
    assert "no valid index" in page
