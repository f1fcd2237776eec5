"""Editing a task: saved, checked, refused, and edited by two people at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from environments.models import Environment, Split, Task, TaskRevision
from tests.environments.curation.admin.people import person_who_may
from tests.environments.curation.tasks import served
from tests.environments.curation.transfer.files import Shelf, counts
from tests.rows import each
from tests.stored import make_environment, make_split, make_task

pytestmark = pytest.mark.django_db(transaction=True)

SCHEMA = '{"type": "object", "required": ["answer"], "properties": {"answer": {"type": "integer"}}}'


def edit(client: Client, task: Task, spec: Any, action: str = "save", **more: Any) -> HttpResponse:
    text = spec if isinstance(spec, str) else json.dumps(spec)
    values = {"spec": text, "seen": 0, "action": action, **more}
    return client.post(reverse("admin:environments_task_edit", args=[task.pk]), values)


def test_the_editor_shows_the_content_indented(client: Client) -> None:
    task = make_task({"question": "2+2", "answer": 4})
    page = client.get(reverse("admin:environments_task_edit", args=[task.pk])).content.decode()
    assert "&quot;question&quot;: &quot;2+2&quot;,\n" in page


def test_a_saved_edit_takes_the_place(client: Client) -> None:
    before, task, after = make_task(), make_task({"answer": 4}), make_task()
    split = make_split(before, task, after)
    answer = edit(client, task, {"answer": 5}, reason="It was wrong")
    new = Task.objects.get(source="edit")
    assert answer["Location"] == reverse("admin:environments_task_change", args=[new.pk])
    assert served(split) == [before.pk, new.pk, after.pk]
    revision = TaskRevision.objects.get()
    assert (revision.author, revision.reason, revision.successor) == (
        "operator",
        "It was wrong",
        new,
    )


def test_content_of_some_megabytes_can_be_edited(client: Client) -> None:
    answer = edit(client, make_task(), {"answer": "x" * 4_000_000})
    assert answer.status_code == 302 and Task.objects.filter(source="edit").exists()


def test_a_saved_content_is_a_duplicate_when_its_export_is_imported(
    client: Client, tmp_path: Path
) -> None:
    shelf, task = Shelf(tmp_path), make_task({"q": "nul"}, make_environment("shop"))
    make_split(task, environment=task.environment)
    edit(client, task, {"q": "nul \0 and half \ud800"})
    assert counts(shelf.dry_run(shelf.export("jsonl"))) == (0, 0, 1, 0)
    new = Task.objects.get(source="edit")
    page = client.get(reverse("admin:environments_task_edit", args=[new.pk])).content.decode()
    assert r"nul \u0000 and half \ud800" in page


def test_the_author_is_the_logged_in_person() -> None:
    edit(person_who_may("view_task", "change_task", name="grace"), make_task(), {"answer": 5})
    assert TaskRevision.objects.get().author == "grace"


def test_a_spec_that_fails_the_schema_is_kept_with_an_error_at_its_field(client: Client) -> None:
    task = make_task({"answer": 4})
    Environment.objects.update(task_schema=SCHEMA)
    answer = edit(client, task, {"answer": "four", "why": "typed"}, reason="mine")
    page = answer.content.decode()
    assert answer.status_code == 400 and 'data-path="answer"' in page
    assert "&#x27;four&#x27; is not of type &#x27;integer&#x27;" in page
    assert "&quot;typed&quot;" in page and 'value="mine"' in page and Task.objects.count() == 1


@each(
    ("text", "message"),
    [
        ('{"a": 1', "line 1, column 8: Expecting"),
        ("[1]", "it is a list, but a task has to be an object"),
        ('{"a": NaN}', "NaN is not a JSON number"),
        ('{"a": 1, "a": 2}', "twice in one object"),
        ("", "line 1, column 1"),
    ],
)
def test_an_invalid_spec_is_refused_and_kept_in_the_form(
    client: Client, text: str, message: str
) -> None:
    answer = edit(client, make_task(), text)
    assert answer.status_code == 400 and message in answer.content.decode()


def test_unchanged_content_is_refused(client: Client) -> None:
    answer = edit(client, make_task({"answer": 4}), '{ "answer": 4 }')
    assert (
        answer.status_code == 400 and "The content hasn&#x27;t changed" in answer.content.decode()
    )


def test_a_check_says_what_saving_will_touch_and_saves_nothing(client: Client) -> None:
    task = make_task({"answer": 4})
    make_split(task, name="train")
    make_split(task, name="paper")
    Split.objects.filter(name="paper").update(frozen="2026-01-01T00:00:00Z")
    page = edit(client, task, {"answer": 5}, "check").content.decode()
    assert (
        "Save the new content" in page
        and "&#x27;train&#x27;" in page
        and "&#x27;paper&#x27; is frozen" in page
    )
    assert Task.objects.count() == 1


def test_a_trial_needs_a_server_that_plays(client: Client) -> None:
    page = edit(client, make_task(), {"answer": 5}, "try").content.decode()
    assert "This process does not serve environments" in page


def test_a_trial_checks_the_content_first(client: Client) -> None:
    task = make_task({"answer": 4})
    Environment.objects.update(task_schema=SCHEMA)
    assert 'data-path="answer"' in edit(client, task, {"answer": "four"}, "try").content.decode()


def test_the_second_editor_sees_the_difference_and_loses_nothing(client: Client) -> None:
    task = make_task({"answer": 4})
    edit(
        person_who_may("view_task", "change_task", name="grace"),
        task,
        {"answer": 5},
        reason="off by one",
    )
    answer = edit(client, task, {"answer": 6}, reason="off by two")
    page = answer.content.decode()
    assert answer.status_code == 409
    for shown in (
        "grace changed this task",
        "“off by one”",
        "<i>−</i>  &quot;answer&quot;: <mark>5</mark>",  # noqa: RUF001
        'value="off by two"',
    ):
        assert shown in page
    assert "<i>+</i>  &quot;answer&quot;: <mark>6</mark>" in page and Task.objects.count() == 2


def test_the_second_editor_continues_from_the_present_content(client: Client) -> None:
    task = make_task({"answer": 4})
    split = make_split(task)
    edit(client, task, {"answer": 5})
    theirs = Task.objects.get(source="edit")
    page = edit(client, task, {"answer": 6}).content.decode()
    assert f'action="{reverse("admin:environments_task_edit", args=[theirs.pk])}"' in page
    edit(client, theirs, {"answer": 6})
    assert served(split) == [Task.objects.get(spec='{"answer":6}').pk]


def test_it_needs_the_pages_own_token() -> None:
    client = Client(enforce_csrf_checks=True)
    assert edit(client, make_task(), {"answer": 5}).status_code == 403
