"""No statement of a page, or of /api/, goes through a table that can grow.

The addresses are those with which the tests of private environments visit every URL pattern.
"""

from __future__ import annotations

import pytest
from django.test import Client

from tests.episodes.api import private_rows
from tests.episodes.api.test_private import addresses
from tests.orsweb.pages.test_private import ADDRESSES
from tests.people import client_of
from tests.private import make_private
from tests.statement_plans import caught, judge

pytestmark = pytest.mark.django_db(transaction=True)

LEFT_OUT = {
    "admin/": "tests/environments/admin/test_admin_plans.py",
    "events/": "these do not end",
}
"""Beginnings of addresses that are not visited here, with the reason or the test that visits them.

Exports: tests/episodes/transfer/test_export_plans.py.
"""
EXCEPTIONS = {
    """"player" = %s) ORDER BY 1 DESC LIMIT 1 OFFSET 50000""": "nearly all episodes are of other players than people",
    """NOT ("episodes_episode"."player" = %s) ORDER BY 1 DESC LIMIT 1 OFFSET 50000""": "as in the line above",
    """NOT p.counts_left))))) ORDER BY 1 DESC LIMIT 1000""": "nearly all episodes are attempts that have ended",
    """"episodes_episode"."id" > %s AND "episodes_episode"."status" = %s)""": "these are 50,000 episodes at most",
}
"""Parts of statements in which PostgreSQL walks along an index, with why the walk is short."""


def visit(client: Client, path: str) -> None:
    response = client.get(path)
    assert response.status_code < 500, path
    if response.streaming:
        b"".join(response)  # type: ignore[arg-type]


def test_no_statement_of_a_page_reads_a_whole_table(monkeypatch: pytest.MonkeyPatch) -> None:
    make_private()
    client = client_of("operator")
    pages = [path for path in ADDRESSES if not path.startswith(tuple(LEFT_OUT)) and "export" not in path]
    with caught(monkeypatch) as statements:
        for path in pages:
            visit(client, f"/{path}")
    judge(statements, EXCEPTIONS, least=200)


def test_no_statement_of_the_api_reads_a_whole_table(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = private_rows.make_private_rows()["insider"]
    client = client_of("operator")
    with caught(monkeypatch) as statements:
        for path, _ in addresses(ids):
            if "export" not in path:
                visit(client, path)
    judge(statements, EXCEPTIONS, least=50)
