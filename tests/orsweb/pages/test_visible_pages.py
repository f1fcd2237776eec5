"""No page shows an invisible character, whichever name holds it; links and form controls keep it."""

from __future__ import annotations

import json
import re

import pytest
from django.test import Client

from environments.display.visible import visible
from orsweb.pages.visible_pages import visible_page
from tests.episodes.ended import count_statistics, end_episode
from tests.rows import each
from tests.stored import make_run, make_split, make_step

NAME = "run\u202egnp\u3164\u200b\U000e0041"
MARKED = "run⟦RLO⟧gnp⟦U+3164⟧⟦ZWSP⟧⟦U+E0041⟧"

pytestmark = pytest.mark.django_db


def test_names_are_marked_on_every_page_and_filters_keep_them(client: Client) -> None:
    run = make_run(NAME)
    episode = end_episode(run=run, model=NAME, run_step=1, user_agent=NAME, labels=json.dumps({"team": NAME}))
    make_split(episode.task)
    make_step(episode, NAME, tool=NAME, reward=1.0)
    count_statistics()
    number, name = episode.pk, episode.environment.name
    addresses = [
        *("/", "/episodes/", "/runs/", "/curves/", "/leaderboard/", f"/environments/{name}/", f"/episodes/{number}/"),
        *(f"/runs/{run.pk}/", f"/tasks/{episode.task_id}/", "/admin/episodes/episode/", "/admin/episodes/run/"),
    ]
    pages = {address: client.get(address, {"model": NAME} if address == "/episodes/" else {}) for address in addresses}
    texts = {address: page.content.decode() for address, page in pages.items() if page.status_code == 200}
    assert [address for address, text in texts.items() if MARKED in text] != []
    for address, text in texts.items():
        shown = re.sub(r"<(script|textarea)\b.*?</\1>|<[^>]*>", "", text, flags=re.DOTALL)
        assert visible(shown) == shown, address
    assert f'value="{NAME}"' in texts["/episodes/"]


@each(
    ("page", "expected"),
    [
        ("<p title=\"a\u202eb\" data-x='\u202e'>c\u202ed</p>", "<p title=\"a⟦RLO⟧b\" data-x='\u202e'>c⟦RLO⟧d</p>"),
        ("<textarea>a\u200bb</textarea>\u200b", "<textarea>a\u200bb</textarea>⟦ZWSP⟧"),
        ("<input value='\u200b'>", "<input value='\u200b'>"),
        ("<b>\u2764\ufe0f</b>", "<b>\u2764\ufe0f</b>"),
    ],
)
def test_texts_are_marked_and_values_are_not(page: str, expected: str) -> None:
    assert visible_page(page) == expected
