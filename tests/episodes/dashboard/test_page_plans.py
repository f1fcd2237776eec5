"""No statement of a page, or of /api/, goes through a table that can grow.

The addresses are those with which the tests of private environments visit every URL pattern.
"""

from __future__ import annotations

import pytest
from django.test import Client
from pytest_django.fixtures import Settings

from environments.keys.keyring import ring
from environments.keys.stored_keys import make_key
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
    """"player" = %s) ORDER BY 1 DESC LIMIT 1 OFFSET 50000""": "nearly all episodes are of other "
    "players than people",
    """NOT ("episodes_episode"."player" = %s) ORDER BY 1 DESC LIMIT 1 OFFSET 50000""": "as in the "
    "line above",
    """NOT p.counts_left))))) ORDER BY 1 DESC LIMIT 1000""": "nearly all episodes are attempts "
    "that have ended",
    """"episodes_episode"."id" > %s AND "episodes_episode"."status" = %s)""": "these are 50,000 "
    "episodes at most",
    """ORDER BY U0."return_sum" ASC, 0 ASC LIMIT 0)""": "a page in the order of a figure tests so "
    "many at most",
    """("episodes_run"."key_label" = %s OR EXISTS(""": "of each run, one of its episodes is looked "
    "at",
    """"return_sum" IS NOT NULL) ORDER BY""": "all episodes that have ended have a sum",
    """NOT ("environments_task"."id" IN (SELECT U0."task_id" AS "episode__task\"""": "a person "
    "plays few "
    "tasks at once",
}
"""Parts of statements that walk along an index, with why the walk is short."""


def visit(client: Client, path: str) -> None:
    response = client.get(path)
    assert response.status_code < 500, path
    if response.streaming:
        b"".join(response)  # type: ignore[arg-type]


def test_no_statement_of_a_page_reads_a_whole_table(monkeypatch: pytest.MonkeyPatch) -> None:
    make_private()
    client = client_of("operator")
    pages = [
        path for path in ADDRESSES if not path.startswith(tuple(LEFT_OUT)) and "export" not in path
    ]
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


def test_no_statement_for_a_reader_with_a_key_reads_a_whole_table(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    """A key reads what was recorded with it, which may be little of what there is."""
    settings.ORSWEB_REQUIRE_KEYS = True
    ids = private_rows.make_private_rows()["insider"]
    _, text = make_key(
        "insider", scopes=["play", "record", "read"], environments=[private_rows.CANARY]
    )
    ring.read()
    client = Client(headers={"X-API-Key": text})
    with caught(monkeypatch) as statements:
        for path, _ in addresses(ids):
            visit(client, path)
    judge(statements, EXCEPTIONS, least=50)
