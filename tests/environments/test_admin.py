"""The admin of what can be played, as a person at the pages sees it."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from tests.stored import make_environment, make_split, make_task

pytestmark = pytest.mark.django_db

TASKS = "/admin/environments/task/"


def test_it_lists_environments_in_the_order_of_hosting(client: Client) -> None:
    make_environment("second", position=1)
    make_environment("first", position=0, description="Finds a number.\nMore.")
    page = client.get("/admin/environments/environment/").content.decode()
    assert page.index(">first<") < page.index(">second<")
    assert "Finds a number." in page and "More." not in page


def test_it_shows_an_environments_splits_with_their_sizes(client: Client) -> None:
    split = make_split(*(make_task() for _ in range(3)), name="validation")
    page = client.get(reverse("admin:environments_environment_change", args=[split.environment_id])).content.decode()
    assert "validation" in page and '<td class="right number">3</td>' in page


def test_it_shows_an_environments_description(client: Client) -> None:
    environment = make_environment(description="Actions: <submit>.")
    page = client.get(reverse("admin:environments_environment_change", args=[environment.pk])).content.decode()
    assert "Actions: &lt;submit&gt;." in page


def test_it_shows_a_task_and_where_it_stands(client: Client) -> None:
    task = make_task({"question": "How many?\nSay a number.", "answer": 42})
    make_split(make_task(), task, name="test")
    page = client.get(reverse("admin:environments_task_change", args=[task.pk])).content.decode()
    for shown in ("How many?\nSay a number.", "42", "test #1", task.content_hash):
        assert shown in page


def test_it_offers_no_way_to_change_a_task(client: Client) -> None:
    task = make_task()
    assert client.get(TASKS + "add/").status_code == 403
    assert client.post(reverse("admin:environments_task_delete", args=[task.pk]), {"post": "yes"}).status_code == 403
