"""Flags on the page of one task: what a curator reads, and how flags are settled."""

from __future__ import annotations

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from environments.models import Task
from environments.tasks.flags import flag, flags_of
from tests.environments.curation.admin.people import person_who_may
from tests.stored import make_task

pytestmark = pytest.mark.django_db


def page_of(client: Client, task: Task) -> str:
    return client.get(reverse("admin:environments_task_change", args=[task.pk])).content.decode()


def settled(client: Client, task: Task, **values: object) -> HttpResponse:
    """Return the answer, or the page that it leads to."""
    return client.post(
        reverse("admin:environments_task_settle", args=[task.pk]), values, follow=True
    )


def test_it_shows_who_flagged_what_in_which_episode(client: Client) -> None:
    task = make_task()
    flag(task, "ada", "The answer is <b>wrong</b>.\nIt is 5.", 12)
    page = page_of(client, task)
    for shown in (
        "Flagged as broken",
        "&lt;b&gt;wrong&lt;/b&gt;.<br>It is 5.",
        "ada",
        'href="/episodes/12/"',
    ):
        assert shown in page


def test_the_note_of_a_flag_is_offered_as_the_reason_of_a_quarantine(client: Client) -> None:
    task = make_task()
    assert 'rows="2" maxlength="2000" required></textarea>' in page_of(client, task)
    flag(task, "ada", "The answer is wrong.")
    assert 'rows="2" maxlength="2000" required>The answer is wrong.</textarea>' in page_of(
        client, task
    )


def test_a_curator_settles_one_and_it_stays_on_record(client: Client) -> None:
    task = make_task()
    number = flag(task, "ada", "Wrong.").pk
    flag(task, "bob", "Too hard.")
    page = settled(client, task, flag=number).content.decode()
    assert (
        "Resolved 1 flag." in page and "1 resolved flag<" in page and "resolved by operator" in page
    )
    assert [row.author for row in flags_of(task).open] == ["bob"]


def test_a_curator_settles_all_of_a_task(client: Client) -> None:
    task, other = make_task(), make_task()
    for row, author in ((task, "ada"), (task, "bob"), (other, "ada")):
        flag(row, author, "Wrong.")
    assert "Resolve all 2" in page_of(client, task)
    assert "Resolved 2 flags." in settled(client, task).content.decode()
    assert not flags_of(task).open and flags_of(other).open


def test_settling_what_another_person_settled_is_refused(client: Client) -> None:
    task = make_task()
    number = flag(task, "ada", "Wrong.").pk
    settled(client, task)
    assert (
        "someone else has already resolved this flag"
        in settled(client, task, flag=number).content.decode()
    )


@pytest.mark.parametrize("number", ["x", "9" * 30, "-1"])
def test_a_malformed_flag_number_settles_nothing(client: Client, number: str) -> None:
    task = make_task()
    flag(task, "ada", "Wrong.")
    settled(client, task, flag=number)
    assert flags_of(task).open


def test_only_people_who_may_change_tasks_may_settle_flags() -> None:
    task = make_task()
    flag(task, "ada", "Wrong.")
    reader = person_who_may("view_task")
    assert "Wrong." in page_of(reader, task) and ">Resolve</button>" not in page_of(reader, task)
    assert settled(reader, task).status_code == 403 and flags_of(task).open
