"""No page shows an invisible character, whichever name holds it; links and form controls keep
it."""

from __future__ import annotations

import gzip
import json
import re

import pytest
from django.test import Client

from environments.display.visible import visible, visible_html
from tests.episodes.ended import count_statistics, end_episode
from tests.episodes.reported import played, reported
from tests.rows import each
from tests.stored import make_episode, make_run, make_split, make_step

NAME = "run\u202egnp\u3164\u200b\U000e0041"
MARKED = "run⟦RLO⟧gnp⟦U+3164⟧⟦ZWSP⟧⟦U+E0041⟧"

pytestmark = pytest.mark.django_db


def test_names_are_marked_on_every_page_and_filters_keep_them(client: Client) -> None:
    run = make_run(NAME)
    episode = end_episode(
        run=run, model=NAME, run_step=1, user_agent=NAME, labels=json.dumps({"team": NAME})
    )
    make_split(episode.task)
    make_step(episode, NAME, tool=NAME, reward=1.0)
    count_statistics()
    number, name = episode.pk, episode.environment.name
    addresses = [
        *(
            "/",
            "/episodes/",
            "/runs/",
            "/curves/",
            "/leaderboard/",
            f"/environments/{name}/",
            f"/episodes/{number}/",
        ),
        *(
            f"/runs/{run.pk}/",
            f"/tasks/{episode.task_id}/",
            "/admin/episodes/episode/",
            "/admin/episodes/run/",
        ),
    ]
    pages = {
        address: client.get(address, {"model": NAME} if address == "/episodes/" else {})
        for address in addresses
    }
    texts = {
        address: page.content.decode() for address, page in pages.items() if page.status_code == 200
    }
    assert [address for address, text in texts.items() if MARKED in text] != []
    for address, text in texts.items():
        shown = re.sub(r"<(script|textarea)\b.*?</\1>|<[^>]*>", "", text, flags=re.DOTALL)
        assert visible(shown) == shown, address
    assert f'value="{NAME}"' in texts["/episodes/"]


@each(
    ("page", "expected"),
    [
        (
            "<p title=\"a\u202eb\" data-x='\u202e'>c\u202ed</p>",
            "<p title=\"a⟦RLO⟧b\" data-x='\u202e'>c⟦RLO⟧d</p>",
        ),
        ("<textarea>a\u200bb</textarea>\u200b", "<textarea>a\u200bb</textarea>⟦ZWSP⟧"),
        ("<input value='\u200b'>", "<input value='\u200b'>"),
        ("<b>\u2764\ufe0f</b>", "<b>\u2764\ufe0f</b>"),
        (
            "<svg><title>a\u202eb</title><text x='1'>\u200b</text></svg>",
            "<svg><title>a⟦RLO⟧b</title><text x='1'>⟦ZWSP⟧</text></svg>",
        ),
        (
            '<script type="application/json">"\u202e"</script>',
            '<script type="application/json">"\u202e"</script>',
        ),
        (
            '<a href="?run=\u200b" title="\u200b">\u200b</a>',
            '<a href="?run=\u200b" title="⟦ZWSP⟧">⟦ZWSP⟧</a>',
        ),
        ('<option value="\u200b">\u200b</option>', '<option value="\u200b">⟦ZWSP⟧</option>'),
        ("<pre>a\r\nb\x1b[1m</pre>", "<pre>a\nb␛[1m</pre>"),
    ],
)
def test_texts_are_marked_and_values_are_not(page: str, expected: str) -> None:
    assert visible_html(page) == expected


@pytest.mark.django_db(transaction=True)
def test_messages_that_a_replay_loads_compressed_are_marked(client: Client) -> None:
    """The middleware cannot read them any more."""
    episode = played()
    said = [
        ("tool_call", '{"text": "hi"}', {"name": "echo"}),
        ("assistant_message", "a", {"name": NAME}),
    ]
    reported(messages=said, event='{"metadata": {"session_id": "s-1"}}')
    answer = client.get(f"/episodes/{episode.pk}/steps/", headers={"Accept-Encoding": "gzip"})
    assert answer.headers["Content-Encoding"] == "gzip"
    text = gzip.decompress(answer.content).decode()
    assert f">{MARKED}<" in text and f">{NAME}<" not in text


def test_names_of_tools_in_the_list_of_steps_are_marked(client: Client) -> None:
    episode = make_episode(steps_count=1)
    make_step(episode, tool=NAME)
    assert client.get(f"/episodes/{episode.pk}/rail.json").json()["tools"] == [MARKED]


def test_plain_answers_keep_them(client: Client) -> None:
    """They are read by programs."""
    episode = end_episode(run=make_run(NAME), model=NAME)
    count_statistics()
    assert client.get("/api/episodes").json()["results"][0]["model"] == NAME
    board = f"/environments/{episode.environment.name}/leaderboard/"
    assert NAME in client.get(f"{board}?format=csv").content.decode()
