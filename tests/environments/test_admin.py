"""The admin of what can be played, as a person at the pages sees it."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from tests.stored import make_environment, make_task

pytestmark = pytest.mark.django_db

TASKS = "/admin/environments/task/"


def test_it_lists_environments_in_the_order_of_hosting(client: Client) -> None:
    make_environment("second", position=1)
    make_environment("first", position=0, description="Finds a number.\nMore.")
    page = client.get("/admin/environments/environment/").content.decode()
    assert page.index(">first<") < page.index(">second<")
    assert "Finds a number." in page and "More." not in page


def test_it_offers_no_way_to_change_a_task(client: Client) -> None:
    task = make_task()
    assert client.get(TASKS + "add/").status_code == 403
    assert client.post(reverse("admin:environments_task_delete", args=[task.pk]), {"post": "yes"}).status_code == 403
