"""A review: from the page of one task to the next in the list that it was opened from, with its
filters."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.test import Client

from environments.models import Task, TaskFlag, TaskTag
from tests.environments.curation.tasks import make_tasks, split_of

pytestmark = pytest.mark.django_db(transaction=True)
TASKS = "/admin/environments/task/"


def first_of(client: Client, query: str) -> str:
    """Return the address of the first task in the list."""
    page = client.get(f"{TASKS}?{query}").content.decode()
    found = re.search(r'href="(\d+/change/\?list=[^"]*)"', page)
    assert found
    return TASKS + unescape(found[1])


def linked(client: Client, address: str, name: str) -> str | None:
    page = client.get(address).content.decode()
    found = re.search(rf'data-review-{name} href="([^"]*)"', page)
    return unescape(found[1]) if found else None


@pytest.mark.parametrize("with_split", [False, True])
def test_it_walks_through_the_list_and_back(client: Client, with_split: bool) -> None:
    ids = make_tasks(4)
    split = split_of(ids[2], ids[0], ids[3])
    query = f"split={split.pk}" if with_split else ""
    order = [ids[2], ids[0], ids[3]] if with_split else [ids[3], ids[2], ids[0]]
    here = first_of(client, query)
    for task, following in zip(order, [*order[1:], None], strict=True):
        assert here.startswith(f"{TASKS}{task}/change/")
        after = linked(client, here, "next")
        assert (after is None) == (following is None)
        if after:
            assert (linked(client, after, "previous") or "").startswith(f"{TASKS}{task}/change/")
        here = after or here
    assert linked(client, here, "list") == (f"{TASKS}?{query}" if query else TASKS)


def test_it_goes_on_from_the_task_that_it_went_back_to(client: Client) -> None:
    tasks = make_tasks(4)
    split_of(*tasks)
    Task.objects.filter(pk__in=tasks[:3]).update(spec='{"question": "walrus"}')
    first = first_of(client, "search=walrus")
    second = linked(client, first, "next")
    assert second
    back = linked(client, second, "previous")
    assert back == first
    assert linked(client, back, "next") == second


def test_what_settles_a_task_goes_on_to_the_next_of_the_filter(client: Client) -> None:
    one, two, three = make_tasks(3)
    split_of(one, two, three)
    for task in (one, two, three):
        TaskFlag.objects.create(task_id=task, note="wrong", author="bob")
    here = first_of(client, "flags=open")
    for action, task, following in (("accept", three, two), ("quarantine", two, one)):
        address = here.replace("/change/", "/do/")
        assert here.startswith(f"{TASKS}{task}/change/")
        here = client.post(address, {"action": action, "reason": "no unit"})["Location"]
        assert here.startswith(f"{TASKS}{following}/change/")
    assert list(TaskTag.objects.values_list("task", "name")) == [(three, "accepted")]
    assert list(TaskFlag.objects.filter(settled=None).values_list("task", flat=True)) == [one, two]
    assert Task.objects.get(pk=two).state == "quarantined"
    here = client.post(here.replace("/change/", "/do/"), {"action": "tag", "tags": "later"})[
        "Location"
    ]
    assert here.startswith(f"{TASKS}{one}/change/") and "flags" in here


def test_a_page_that_was_not_opened_from_a_list_has_no_neighbours(client: Client) -> None:
    [one] = make_tasks(1)
    page = client.get(f"{TASKS}{one}/change/").content.decode()
    assert "data-review-list" not in page and f"/tasks/{one}/" in page
    assert client.get(f"{TASKS}{one}/change/?at=n1&list=split%3Dx").status_code == 400


def test_a_list_starts_its_review_which_says_how_many_follow(client: Client) -> None:
    first, second, third = make_tasks(3)
    split_of(first, second, third)
    page = client.get(TASKS).content.decode()
    found = re.search(r'<a class="button" href="([^"]*)"[^>]*>Review</a>', page)
    assert found and found[1].startswith(f"{third}/change/")
    here = TASKS + unescape(found[1])
    assert "2 to come" in client.get(here).content.decode()
    assert "1 to come" in client.get(linked(client, here, "next") or "").content.decode()
