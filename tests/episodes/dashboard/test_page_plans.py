"""No statement of a page or of the API goes through a table that grows, by SQLite's plans."""

from __future__ import annotations

import asyncio

import pytest
from django.db import connection
from django.test import Client

from episodes.models import Episode, Run
from tests.episodes.recording.test_statement_plans import caught, play, scans

pytestmark = pytest.mark.django_db(transaction=True)

PAGES = (
    *("/", "/environments/", "/environments/shop/", "/environments/shop/leaderboard/", "/tasks/{task}/", "/runs/"),
    *(
        "/runs/{run}/",
        "/runs/curves/?environment=shop",
        "/episodes/",
        "/episodes/?environment=shop&text=long",
        "/episodes/1/",
    ),
    *("/episodes/?environment=shop&text=long", "/api/episodes", "/api/environments", "/api/runs"),
)


@pytest.mark.skipif(connection.vendor == "postgresql", reason="its plans for nearly empty tables say nothing of pages")
def test_no_statement_of_a_page_reads_a_whole_table(monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(play())
    names = {"run": Run.objects.get().pk, "task": Episode.objects.get(pk=1).task_id}
    client = Client()
    with caught(monkeypatch) as statements:
        for path in PAGES:
            assert client.get(path.format(**names)).status_code == 200, path
    assert len(statements) > 50
    found = scans(statements)
    assert not found, "\n\n".join(found)
