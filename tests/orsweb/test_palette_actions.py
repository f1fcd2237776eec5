"""What the palette offers people to do."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.test import Client

from tests.people import client_of

pytestmark = pytest.mark.django_db
VIEWERS = {
    "Connect an agent": "/#connect",
    "Conversations": "/conversations/",
    "Curves": "/runs/curves/",
    "Studies": "/play/studies/",
    "People": "/play/people/",
    "Change password": "/accounts/password/",
}
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
    links = re.findall(
        'href="([^"]*)" data-kind="(?:action|page)">([^<]*)', offered(client_of(group))
    )
    assert {label: unescape(address) for address, label in links} == actions


def test_it_leads_to_the_lists_of_the_admin_that_a_person_may_open() -> None:
    admin = {
        group: dict(re.findall('href="([^"]*)" data-kind="admin">([^<]*)', offered(client)))
        for group in ("viewer", "operator")
        for client in [client_of(group, name=group)]
    }
    assert admin["operator"]["/admin/environments/apikey/"] == "API keys"
    assert "/admin/environments/task/" in admin["operator"]
    assert not {"/admin/environments/apikey/", "/admin/auth/user/"} & admin["viewer"].keys()


def test_it_logs_people_out_who_have_logged_in(client: Client) -> None:
    button = '<button type="button" data-presses="[data-log-out]">Log out</button>'
    assert button in offered(client_of("viewer"))
    assert button not in offered(client)


def offered(client: Client) -> str:
    """Return what the palette of a page offers besides the pages of the rail, as HTML."""
    text = client.get("/environments/").content.decode()
    [block] = re.findall("<div data-actions hidden>(.*?)</div>", text)
    return block
