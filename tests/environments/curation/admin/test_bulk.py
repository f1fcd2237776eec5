"""Bulk actions: each shows what it will touch before it is done."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from pytest_django.fixtures import Settings

from environments.database import background_jobs
from environments.models import CurationAction, Split, SplitEntry, Task, TaskRevision, TaskTag
from tests.episodes.ended import end_episode
from tests.rows import each
from tests.stored import make_environment, make_split, make_statistics, make_step, make_task

pytestmark = pytest.mark.django_db(transaction=True)

TASKS = "/admin/environments/task/"


def ask(client: Client, action: str, **values: Any) -> str:
    """Return the page of an action before it is confirmed."""
    return client.post(f"{TASKS}act/{action}/", values, follow=True).content.decode()


def do(client: Client, action: str, **values: Any) -> str:
    """Return the page after the form was filled in, its plan shown and the button pressed."""
    inputs = re.search(r'name="inputs" value="([^"]*)"', ask(client, action, **values, ask="1"))
    assert inputs is not None
    answer = client.post(
        f"{TASKS}act/{action}/",
        {**values, "ask": "1", "confirm": "1", "inputs": inputs[1]},
        follow=True,
    )
    return answer.content.decode()


def served(split: Split) -> list[int]:
    split.refresh_from_db()
    entries = SplitEntry.objects.filter(split=split, is_hidden=False, since__lte=split.version)
    return list(
        entries.exclude(until__lte=split.version)
        .order_by("position")
        .values_list("task", flat=True)
    )


def test_it_says_what_a_quarantine_will_touch(client: Client) -> None:
    task = make_task()
    make_split(task, make_task(), name="train")
    page = ask(client, "quarantine", task=task.pk)
    assert "Quarantine 1 task" in page and "1 task is in split &#x27;train&#x27;." in page
    assert Task.objects.get(pk=task.pk).state == "active"


def test_a_quarantine_names_its_tasks_and_what_fails_at_them(client: Client) -> None:
    task = make_task({"question": "Mend the ledger."})
    make_split(task, name="train")
    failure = end_episode(None, task=task, cause="env_error", failed_count=1)
    make_step(failure, status="failed", reason="KeyError", error="'tests'")
    make_statistics(task, attempts=1, successes=1, failures=1)
    page = ask(client, "quarantine", task=task.pk)
    assert "math train #0</a> Mend the ledger." in page and "1 of 2</td>" in page
    assert "<code>KeyError: &#x27;tests&#x27;</code>" in page
    assert "Agents are not offered them any more." in page and "“Release”" in page


def test_its_outcome_leads_to_its_undo(client: Client) -> None:
    page = do(client, "quarantine", task=make_task().pk, reason="odd")
    [action] = CurationAction.objects.all()
    link = f'href="/admin/environments/curationaction/{action.pk}/change/"'
    assert f'Quarantined 1 task. <a class="underline" {link}>See the change' in page


def test_a_quarantine_leads_to_its_tasks_and_back(client: Client) -> None:
    task, _ = make_task(), make_split(make_task())
    page = do(client, "quarantine", task=task.pk, reason="odd", back="bucket=unseen")
    assert "These tasks alone, in any state." in page and page.count("data-row") == 2
    assert f'href="{TASKS}?bucket=unseen">Back to the list</a>.' in page
    assert f'value="{task.pk}" aria-label="Select this task"' in page


def test_it_names_what_it_leaves_alone_and_says_why(client: Client) -> None:
    bad, good = make_task({"question": "Mend it."}), make_task()
    make_split(bad, good, name="train")
    do(client, "quarantine", task=bad.pk, reason="It crashes.")
    values = {"environment": bad.environment_id, "bucket": "unseen", "scope": "all"}
    page = ask(client, "quarantine", **values)
    assert "Quarantine 1 task" in page and "Left alone: not served" in page
    assert f'<a href="{TASKS}{bad.pk}/change/">math train #0 (quarantined)</a> Mend it.' in page
    assert "quarantined: It crashes." in page
    assert f"{TASKS}?environment={bad.environment_id}&amp;state=any&amp;bucket=unseen" in page


def test_where_only_what_is_not_served_matches_it_says_so(client: Client) -> None:
    make_task({"question": "Mend it."})
    page = ask(client, "quarantine", scope="all")
    assert "No task that is served matches. 1 task that matches is not served" in page
    assert "Mend it." in page and "pasted by a client" in page


def test_it_quarantines_with_a_reason(client: Client) -> None:
    task, other = make_task(), make_task()
    split = make_split(task, other)
    do(client, "quarantine", task=task.pk, reason="The answer is wrong.")
    revision = TaskRevision.objects.get(task=task)
    assert (revision.author, revision.reason) == ("operator", "The answer is wrong.")
    assert served(split) == [other.pk]


def test_the_first_page_can_be_confirmed_at_once(client: Client) -> None:
    task = make_task()
    inputs = re.search(r'name="inputs" value="([^"]*)"', ask(client, "quarantine", task=task.pk))
    assert inputs is not None
    ask(client, "quarantine", task=task.pk, reason="odd", ask="1", confirm="1", inputs=inputs[1])
    assert Task.objects.get(pk=task.pk).state == "quarantined"


def test_its_page_has_an_address_to_go_back_to(client: Client) -> None:
    tasks = [make_task(), make_task()]
    values = {
        "task": [task.pk for task in tasks],
        "tags": "odd",
        "reason": "why",
        "ask": "1",
        "back": "state=active",
    }
    answer = client.post(f"{TASKS}act/tag/", values)
    assert answer.status_code == 302
    page = client.get(answer["Location"]).content.decode()
    assert (
        "2 tasks" in page
        and 'value="odd"' in page
        and ">why<" in page.replace("\n", "")
        and f'href="{TASKS}?state=active"' in page
    )


def test_an_address_alone_changes_nothing(client: Client) -> None:
    task = make_task()
    client.get(f"{TASKS}act/quarantine/?ids={task.pk}&reason=odd&ask=1&confirm=1&inputs=")
    assert Task.objects.get(pk=task.pk).state == "active"


def test_a_choice_too_long_for_an_address_is_still_shown(client: Client) -> None:
    ids = ",".join([str(make_task().pk), *map(str, range(10**6, 10**6 + 1000))])
    answer = client.post(f"{TASKS}act/release/", {"ids": ids})
    assert answer.status_code == 200 and "Release" in answer.content.decode()


def test_it_needs_the_reason(client: Client) -> None:
    task = make_task()
    page = ask(client, "quarantine", task=task.pk, reason=" ", ask="1", confirm="1")
    assert "This field is required." in page
    assert Task.objects.get(pk=task.pk).state == "active"


def test_it_releases(client: Client) -> None:
    split = make_split(task := make_task())
    do(client, "quarantine", task=task.pk, reason="odd")
    assert served(split) == []
    do(client, "release", task=task.pk)
    assert served(split) == [task.pk]


def test_it_adds_and_removes_tags(client: Client) -> None:
    task = make_task()
    do(client, "tag", task=task.pk, tags="odd, to check")
    assert list(TaskTag.objects.values_list("name", flat=True)) == ["odd", "to check"]
    do(client, "untag", task=task.pk, tags="odd")
    assert list(TaskTag.objects.values_list("name", flat=True)) == ["to check"]


def test_it_acts_on_all_that_match(client: Client) -> None:
    for _ in range(60):
        TaskTag.objects.create(task=make_task(), name="odd")
    other = make_task()
    do(client, "quarantine", tag="odd", scope="all", state="any", reason="odd")
    assert list(Task.objects.filter(state="active")) == [other]


@each(
    "name, value",
    [
        *(
            ("search", text)
            for text in (
                "",
                " ",
                "\u00a0",
                "\u3000",
                "\t",
                "\u0301",
                "\u200b",
                '" "',
                'question~"\u0301"',
            )
        ),
        *(
            (name, text)
            for name in ("environment", "split", "tag", "bucket", "source", "flags")
            for text in ("", " ")
        ),
        *(("ids", text) for text in ("", " ", ",")),
        *(("scope", text) for text in ("", " ", "everything", "All", "all ")),
    ],
)
def test_what_selects_nothing_does_not_mean_all(client: Client, name: str, value: str) -> None:
    task = make_task()
    values = {
        "scope": "all",
        "state": "any",
        "reason": "odd",
        "ask": "1",
        "confirm": "1",
        "inputs": "",
        name: value,
    }
    answers = [
        client.post(f"{TASKS}act/{action}/", values) for action in ("quarantine", "export", "study")
    ]
    answers.append(client.get(f"{TASKS}act/quarantine/", values))
    answers += (
        [] if name == "scope" else [client.get(f"{TASKS}export/", {name: value, "format": "jsonl"})]
    )
    assert {answer.status_code for answer in answers} == {400}
    assert all(f"{name}=" in answer.content.decode() for answer in answers)
    assert Task.objects.get(pk=task.pk).state == "active"


@pytest.mark.parametrize("action", ["save", "copy"])
def test_checked_tasks_keep_the_order_of_the_split_that_is_shown(
    client: Client, action: str
) -> None:
    tasks = [make_task() for _ in range(4)]
    split, held = make_split(*tasks[::-1]), make_split(name="held-out")
    said = {"into": held.pk} if action == "copy" else {"name": "new", "type": "test"}
    do(client, action, split=split.pk, task=[task.pk for task in tasks[1:]], **said)
    into = held if action == "copy" else Split.objects.get(name="new")
    assert served(into) == [task.pk for task in tasks[:0:-1]]


def test_it_saves_a_selection_as_a_new_split(client: Client) -> None:
    for number in range(3):
        TaskTag.objects.create(task=make_task({"question": f"hard {number}"}), name="hard")
    page = do(client, "save", tag="hard", scope="all", state="any", name="hard-train", type="train")
    split = Split.objects.get(name="hard-train")
    assert len(served(split)) == 3 and split.is_curated
    assert (
        f"/admin/environments/split/{split.pk}/change/" in page and "Saved 3 tasks as split" in page
    )


def test_it_says_which_name_is_taken(client: Client) -> None:
    make_split(make_task(), name="train")
    page = ask(client, "save", task=make_task().pk, name="train", type="train", ask="1")
    assert "There is a split &#x27;train&#x27; already" in page


def test_it_copies_and_moves_between_splits(client: Client) -> None:
    first, second = (
        make_split(task := make_task(), name="train"),
        make_split(make_task(), name="test"),
    )
    do(client, "copy", task=task.pk, into=second.pk)
    assert task.pk in served(first) and task.pk in served(second)
    do(client, "remove", task=task.pk, split=second.pk)
    do(client, "move", task=task.pk, out_of=first.pk, into=second.pk)
    assert served(first) == [] and served(second)[-1] == task.pk


def test_it_copies_one_split_into_another(client: Client) -> None:
    first, second = (
        make_split(make_task(), make_task(), name="train"),
        make_split(make_task(), name="test"),
    )
    do(client, "copy", split=first.pk, scope="all", into=second.pk)
    assert served(second)[1:] == served(first)


def test_it_shows_the_plan_again_when_the_form_was_changed(client: Client) -> None:
    task, split, other = make_task(), make_split(name="one"), make_split(name="two")
    values = {
        "task": task.pk,
        "into": other.pk,
        "ask": "1",
        "confirm": "1",
        "inputs": f"|{split.pk}|||",
    }
    page = ask(client, "copy", **values)
    assert "Copy 1 task to split &#x27;two&#x27;" in page
    assert served(other) == []


def test_tasks_of_several_environments_make_no_split(client: Client) -> None:
    tasks = [make_task(environment=make_environment(name)) for name in ("one", "two")]
    page = ask(client, "save", task=[task.pk for task in tasks])
    assert "belong to several environments" in page


def test_the_form_of_a_study_is_filled_with_what_is_chosen(client: Client) -> None:
    tasks = [make_task() for _ in range(6)]
    split = make_split(*tasks, name="train")
    page = ask(client, "study", task=[tasks[n].pk for n in (5, 0, 1, 2)])
    assert f'<option value="split/{split.pk}" selected>' in page and 'value="0-2, 5"' in page
    page = ask(client, "study", scope="all", split=split.pk, search="question")
    assert f'<option value="split/{split.pk}" selected>' in page and 'value="question"' in page
    assert (
        f'href="/play/studies/new/?tasks=split/{split.pk}"'
        in client.get(f"/admin/environments/split/{split.pk}/change/").content.decode()
    )


def test_a_study_needs_tasks_that_one_split_serves(client: Client) -> None:
    task, other = make_task(), make_task()
    make_split(task, name="train")
    assert "those of one split: choose one above the list" in ask(
        client, "study", task=[task.pk, other.pk]
    )
    assert "No task is chosen" in ask(client, "study")
    do(client, "quarantine", task=task.pk, reason="odd")
    assert "does not serve all of the chosen tasks" in ask(client, "study", task=task.pk)


def test_it_says_when_nothing_is_chosen(client: Client) -> None:
    assert "No task is chosen." in ask(client, "release")


def test_many_tasks_are_changed_by_a_job(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("environments.curation.admin.confirmation.MAX_CHANGED_AT_ONCE", 1)
    for _ in range(3):
        make_task()
    do(client, "quarantine", scope="all", state="any", reason="all of them")
    job = background_jobs.jobs()[0]
    assert job.wait(60)
    page = client.get(f"{TASKS}jobs/{job.id}/").content.decode()
    assert job.sentence in page and "Back to the list" in page
    assert not Task.objects.filter(state="active").exists()


def test_a_jobs_numbers_can_be_polled(client: Client) -> None:
    job = background_jobs.start("Count", lambda progress: progress(2000, 5000), owner="ada")
    assert job.wait(60)
    numbers = {"state": "done", "done": 2000, "total": 5000, "progress": "2,000 of 5,000"}
    assert client.get(f"{TASKS}jobs/{job.id}/?state=1").json() == numbers


def test_an_unknown_job_is_not_there(client: Client) -> None:
    assert client.get(f"{TASKS}jobs/nothing/").status_code == 404


def test_it_leads_back_to_the_list_it_started_from(client: Client) -> None:
    task = make_task()
    values = {
        "task": task.pk,
        "ask": "1",
        "confirm": "1",
        "back": "state=active&search=x",
        "inputs": "",
    }
    answer = client.post(f"{TASKS}act/release/", values)
    assert answer["Location"] == f"{TASKS}?state=active&search=x"


def test_someone_without_the_permission_is_refused(client: Client, settings: Settings) -> None:
    settings.ORSWEB_API_KEYS = {"one": "0123456789abcdef"}
    user = User.objects.create_user("ada", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename="view_task"))
    client.force_login(user)
    assert client.post(f"{TASKS}act/quarantine/", {"task": make_task().pk}).status_code == 403


def test_a_form_from_elsewhere_is_refused() -> None:
    assert (
        Client(enforce_csrf_checks=True).post(f"{TASKS}act/release/", {"task": "1"}).status_code
        == 403
    )
