"""Changes of one task from its page: quarantine, release, tags and undo."""

from __future__ import annotations

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from environments.models import Task, TaskRevision, TaskTag
from tests.environments.curation.tasks import served
from tests.stored import make_split, make_task

pytestmark = pytest.mark.django_db(transaction=True)


def do(client: Client, task: Task, action: str, **values: str) -> HttpResponse:
    """Return the page that the request leads to."""
    return client.post(
        reverse("admin:environments_task_do", args=[task.pk]),
        {"action": action, **values},
        follow=True,
    )


def undo_url(task: Task) -> str:
    revision = TaskRevision.objects.latest("id")
    return reverse("admin:environments_task_restore", args=[task.pk, revision.pk])


def test_a_quarantined_task_is_no_longer_served(client: Client) -> None:
    task, other = make_task(), make_task()
    split = make_split(task, other)
    page = do(client, task, "quarantine", reason="The answer is wrong").content.decode()
    assert served(split) == [other.pk] and "Quarantined: The answer is wrong" in page


def test_a_quarantine_needs_a_reason(client: Client) -> None:
    task = make_task()
    page = do(client, task, "quarantine", reason=" ").content.decode()
    assert Task.objects.get().state == "active" and "reason" in page.lower()


def test_a_released_task_is_served_where_it_was(client: Client) -> None:
    task, other = make_task(), make_task()
    split = make_split(task, other)
    do(client, task, "quarantine", reason="wrong")
    do(client, task, "release")
    assert served(split) == [task.pk, other.pk]


def test_tags_are_added_and_removed(client: Client) -> None:
    task = make_task()
    do(client, task, "tag", tags="hard, held-out")
    do(client, task, "untag", tags="hard")
    assert list(TaskTag.objects.values_list("name", flat=True)) == ["held-out"]


def test_an_unknown_action_is_not_found(client: Client) -> None:
    assert do(client, make_task(), "delete").status_code == 404


def test_an_undo_first_shows_what_it_will_do(client: Client) -> None:
    task = make_task()
    do(client, task, "quarantine", reason="wrong")
    page = client.get(undo_url(task)).content.decode()
    assert (
        "Undo this change" in page
        and "“wrong”" in page
        and Task.objects.get().state == "quarantined"
    )


def test_an_undo_takes_back_a_quarantine(client: Client) -> None:
    task = make_task()
    split = make_split(task)
    do(client, task, "quarantine", reason="wrong")
    client.post(undo_url(task), {"reason": "it was right"})
    assert served(split) == [task.pk]
    assert TaskRevision.objects.latest("id").reason == "it was right"


def test_an_undo_puts_an_earlier_content_back_in_its_place(client: Client) -> None:
    task = make_task({"answer": 4})
    split = make_split(task)
    client.post(
        reverse("admin:environments_task_edit", args=[task.pk]),
        {"spec": '{"answer": 5}', "action": "save"},
    )
    new = Task.objects.get(source="edit")
    answer = client.post(undo_url(new), {"reason": "four it is"})
    assert served(split) == [task.pk]
    assert answer["Location"] == reverse("admin:environments_task_change", args=[task.pk])


def test_undoing_what_has_changed_again_is_refused(client: Client) -> None:
    task = make_task()
    do(client, task, "quarantine", reason="wrong")
    url = undo_url(task)
    do(client, task, "release")
    page = client.post(url).content.decode()
    assert "has changed again since" in page and ">Undo</button>" not in page


def test_a_revision_of_another_task_is_not_found(client: Client) -> None:
    do(client, make_task(), "quarantine", reason="wrong")
    assert client.get(undo_url(make_task())).status_code == 404
