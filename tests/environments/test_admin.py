"""The admin of what can be played, as a person at the pages sees it."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from environments.models import Split
from tests.stored import make_environment, make_split, make_task

pytestmark = pytest.mark.django_db

TASKS = "/admin/environments/task/"


def test_it_lists_environments_in_the_order_of_hosting(client: Client) -> None:
    make_environment("second", position=1)
    make_environment("first", position=0, description="Finds a number.\n\nMore.")
    page = client.get("/admin/environments/environment/").content.decode()
    assert page.index(">first<") < page.index(">second<")
    assert "Finds a number." in page and "More." not in page


def test_its_first_page_tells_only_the_splits_that_there_are(client: Client) -> None:
    make_split(name="train")
    Split.objects.create(
        environment=make_environment(), name="gone", type="test", is_curated=True, is_served=False
    )
    page = client.get("/admin/").content.decode()
    assert "<b>train</b>" in page and "<b>gone</b>" not in page


def test_it_offers_no_way_to_change_a_task(client: Client) -> None:
    task = make_task()
    assert client.get(TASKS + "add/").status_code == 403
    assert (
        client.post(
            reverse("admin:environments_task_delete", args=[task.pk]), {"post": "yes"}
        ).status_code
        == 403
    )
