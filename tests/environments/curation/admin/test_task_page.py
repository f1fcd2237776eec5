"""The page of one task, as a person sees it."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from environments.models import (
    Split,
    SplitEntry,
    Task,
    TaskFlag,
    TaskRevision,
    TaskStatistics,
    TaskTag,
)
from tests.environments.curation.admin.people import person_who_may
from tests.stored import NOW, make_split, make_statistics, make_task

pytestmark = pytest.mark.django_db


def page_of(client: Client, task: Task, query: str = "") -> str:
    answer = client.get(reverse("admin:environments_task_change", args=[task.pk]) + query)
    assert answer.status_code == 200
    return answer.content.decode()


def attempted(
    task: Task, by: str = "all", key: str = "", attempts: int = 8, successes: int = 2
) -> None:
    figures = {
        "return_total": attempts / 2,
        "return_low": 0.0,
        "return_high": 1.0,
        "rate": successes / attempts,
    }
    counts = {"attempts": attempts, "scored": attempts, "successes": successes}
    TaskStatistics.objects.create(
        task=task, environment=task.environment, by=by, key=key, **counts, **figures
    )


def edited(old: Task, new: Task, **values: str) -> TaskRevision:
    said = {
        "kind": "edit",
        "change": "c1",
        "author": "ada",
        "before": old.spec,
        "after": new.spec,
        **values,
    }
    return TaskRevision.objects.create(task=old, successor=new, created=NOW, **said)


def test_it_shows_the_content_and_its_splits(client: Client) -> None:
    task = make_task({"question": "How many?\nSay a number.", "answer": 42})
    make_split(make_task(), task, name="test")
    page = page_of(client, task)
    for shown in ("How many?\nSay a number.", "42", ">test</a>", "#1", task.content_hash):
        assert shown in page


def test_it_marks_frozen_and_hidden_places(client: Client) -> None:
    task = make_task()
    make_split(task, name="paper")
    Split.objects.update(frozen=NOW)
    make_split(task, name="train")
    SplitEntry.objects.filter(split__name="train").update(is_hidden=True)
    page = page_of(client, task)
    assert page.count("frozen ❄") == 1 and page.count("not served") == 1


def test_places_that_ended_are_not_shown(client: Client) -> None:
    task = make_task()
    make_split(task)
    SplitEntry.objects.update(until=1)
    Split.objects.update(version=1)
    assert "Not in any split" in page_of(client, task)


def test_it_shows_why_a_task_is_quarantined_and_that_it_was_dropped(client: Client) -> None:
    task = make_task()
    Task.objects.update(state="quarantined", reason="The answer is <wrong>", dropped=timezone.now())
    page = page_of(client, task)
    assert (
        "Quarantined: The answer is &lt;wrong&gt;" in page and "stopped listing this task" in page
    )


def test_it_shows_results_of_all_and_by_run_and_model(client: Client) -> None:
    task = make_task()
    for by, key in (("all", ""), ("run", "grpo-3"), ("model", "small")):
        attempted(task, by, key)
    page = page_of(client, task)
    for shown in ("grpo-3", "small", "learnable", "25%", "2 of 8 attempts", "+0.50"):
        assert shown in page


def test_results_stay_with_the_content_and_both_are_shown(client: Client) -> None:
    old, new = make_task({"question": "2+2"}), make_task({"question": "2+3"})
    edited(old, new)
    attempted(old, attempts=4, successes=4)
    attempted(new, attempts=4, successes=0)
    for task in (old, new):
        page = page_of(client, task)
        assert "saturated" in page and "never solved" in page


def test_an_earlier_content_leads_to_the_one_in_its_place(client: Client) -> None:
    old, new = make_task(), make_task()
    edited(old, new)
    assert "This is an earlier version." in page_of(client, old)
    assert "This is an earlier version." not in page_of(client, new)


def test_restored_content_is_not_listed_as_an_earlier_one(client: Client) -> None:
    old, new = make_task(), make_task()
    edited(old, new)
    edited(new, old, kind="restore")
    assert "This is an earlier version." not in page_of(client, old)


def test_history_shows_who_when_why_and_what(client: Client) -> None:
    old, new = make_task({"answer": 4}), make_task({"answer": 5})
    edited(old, new, reason="It was wrong")
    page = page_of(client, new)
    for shown in (
        "<b>edit</b> by ada",
        "“It was wrong”",
        "&quot;answer&quot;: <mark>4</mark>",
        "&quot;answer&quot;: <mark>5</mark>",
        NOW.isoformat(),
    ):
        assert shown in page


def test_a_long_history_has_pages(client: Client) -> None:
    task = make_task()
    for n in range(60):
        TaskRevision.objects.create(
            task=task, kind="tag", change="c", author=f"a{n}", before="{}", after="[]", created=NOW
        )
    first = TaskRevision.objects.order_by("id")[10]
    assert f"?before={first.pk}#history" in page_of(client, task)
    assert page_of(client, task, f"?before={first.pk}").count('class="change"') == 10


def test_it_runs_as_few_queries_for_many_rows_as_for_few(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    task = make_task()
    page_of(client, task)  # makes the operator, who has then seen the task
    for n in range(20):
        make_split(task, name=f"s{n}")
        edited(task, make_task())
        attempted(task, "run", f"r{n}")
        TaskTag.objects.create(task=task, name=f"t{n}")
    with django_assert_num_queries(
        17
    ):  # user, task, seen, flags, history 3, versions 3, places, tags, results 3, people 2
        page_of(client, task)


def test_it_gives_the_exact_text(client: Client) -> None:
    task = make_task()
    Task.objects.update(spec='{"n": 1e20,  "m": -0.0}')
    assert (
        client.get(reverse("admin:environments_task_spec", args=[task.pk])).content
        == b'{"n": 1e20,  "m": -0.0}'
    )


def test_it_asks_for_the_prompt_where_a_server_plays(client: Client) -> None:
    answer = client.post(reverse("admin:environments_task_prompt", args=[make_task().pk]))
    assert "This process does not serve environments" in answer.content.decode()


@pytest.mark.parametrize("pk", ["0", "999999999999999999999", "x"])
def test_a_task_that_is_not_there_leads_back(client: Client, pk: str) -> None:
    assert client.get(f"/admin/environments/task/{pk}/change/").status_code == 302


def test_with_only_view_permission_no_changes_are_offered() -> None:
    page = page_of(person_who_may("view_task"), make_task())
    assert "Content" in page and "Quarantine…" not in page and ">Edit</a>" not in page


def test_without_view_permission_nothing_is_shown() -> None:
    task = make_task()
    assert (
        person_who_may().get(reverse("admin:environments_task_change", args=[task.pk])).status_code
        == 403
    )


@pytest.mark.parametrize("name", ["prompt", "edit", "do"])
def test_with_only_view_permission_nothing_can_be_changed(name: str) -> None:
    task = make_task()
    answer = person_who_may("view_task").post(
        reverse(f"admin:environments_task_{name}", args=[task.pk]), {"action": "tag"}
    )
    assert answer.status_code == 403


def test_it_shows_all_versions_from_first_to_last_with_figures_and_flags(client: Client) -> None:
    first, second, third = (make_task() for _ in range(3))
    edited(first, second)
    edited(second, third)
    make_statistics(first, 7, 3)
    TaskFlag.objects.create(task=third, note="still wrong", author="bob")
    for task in (first, second, third):
        page = page_of(client, task)
        table = page[page.index("All versions") :]
        links = [f"{number} · " for number in (1, 2, 3)]
        assert [table.index(link) for link in links] == sorted(table.index(link) for link in links)
        assert "attempts by agents and scripted players" in table.partition("<table")[0]
        assert "⚑ 1" in table and '<span class="number">7</span>' in table


def test_its_heading_and_its_crumb_name_it_as_other_pages_do(client: Client) -> None:
    task = make_task({"question": "Mend `total`."})
    make_split(task, name="train")
    page = page_of(client, task)
    assert '<span class="task-place">math train #0</span> Mend total.</h1>' in page
    assert "<li>train #0</li>" in page and page.count("<h1") == 1
