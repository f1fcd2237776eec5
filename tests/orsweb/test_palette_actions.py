"""What the palette offers people to do."""

from __future__ import annotations

import re
from html import unescape

import pytest

from tests.people import client_of

pytestmark = pytest.mark.django_db
VIEWERS = {"Connect an agent": "/#connect", "Conversations": "/conversations/"}
CURATORS = {
    **VIEWERS,
    "Quarantine failing tasks": "/admin/environments/task/act/quarantine/"
    "?bucket=failing&scope=all&ask=1&reason=The%20environment%20fails",
    "New suite": "/suites/new/",
    "New study": "/play/studies/new/",
}
OPERATORS = {
    **CURATORS,
    "Load demo data": "/operations/demo/",
    "Operations": "/operations/",
    "Create API key": "/admin/environments/apikey/add/",
    "Delete episodes": "/admin/episodes/episode/remove/",
    "Invite people": "/play/invites/",
}


@pytest.mark.parametrize(
    ("group", "actions"),
    [("viewer", VIEWERS), ("curator", CURATORS), ("operator", OPERATORS)],
)
def test_it_offers_what_a_person_may_do(group: str, actions: dict[str, str]) -> None:
    text = client_of(group).get("/environments/").content.decode()
    [block] = re.findall("<div data-actions hidden>(.*?)</div>", text)
    links = re.findall('<a href="([^"]*)">([^<]*)</a>', block)
    assert {label: unescape(address) for address, label in links} == actions
