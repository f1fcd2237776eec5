"""The size of the first load of pages: everything that a browser fetches to show one."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.episodes.dashboard.page_weight import MAX_KB, weight
from tests.episodes.ended import end_episode
from tests.rows import each

pytestmark = pytest.mark.django_db


PAGES = [
    "/",
    "/episodes/",
    "/runs/",
    "/runs/curves/?environment=math",
    "/environments/math/",
    "/compare/",
]


@each("url", PAGES)
def test_pages_are_light_and_take_nothing_from_other_hosts(url: str) -> None:
    end_episode()
    found = weight(Client(), url)
    assert found.files > 5 and 10 < found.sent_kb < MAX_KB


def test_what_scripts_import_counts_too() -> None:
    end_episode()
    chart = weight(Client(), "/runs/curves/?environment=math")
    assert chart.plain_kb > 200  # Chart.js, which only a module names


def test_it_counts_what_is_sent() -> None:
    end_episode()
    page = len(Client().get("/episodes/").content) / 1024
    found = weight(Client(), "/episodes/")
    # the page plain, its files compressed
    assert page < found.sent_kb < (found.plain_kb - page) / 2 + page
