"""Alerts about tasks at which the environment fails."""

from __future__ import annotations

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from environments.models import UNRESTRICTED, Environment, Split, Task, Viewer
from episodes.figures.environments import failing_tasks as module
from episodes.figures.environments.failing_tasks import failing_tasks
from tests.people import client_of
from tests.stored import make_environment, make_split, make_statistics, make_task

pytestmark = pytest.mark.django_db


def broken(environment: str = "math", count: int = 1) -> list[Task]:
    """Make a split of tasks with failures alone, and of one with attempts alone."""
    row = make_environment(environment)
    tasks = [make_task({"question": f"{environment} {n}?"}, row) for n in range(count + 1)]
    make_split(*tasks, environment=row)
    for task in tasks[:count]:
        make_statistics(task, 0, 0, failures=3)
    make_statistics(tasks[count], 5, 5, failures=1)
    return tasks[:count]


def text(client: Client, path: str) -> str:
    return client.get(path).content.decode()


def test_the_overview_and_the_page_of_the_environment_name_them(client: Client) -> None:
    [task], [other] = broken(), broken("maze")
    page = text(client, "/")
    assert "2 tasks fail in their environment." in page
    assert f'<a href="/tasks/{task.pk}/">math train #0</a> math 0?' in page
    assert "3 of 3 episodes failed" in page
    own = text(client, "/environments/maze/")
    assert "1 task fails in its environment." in own and f"/tasks/{other.pk}/" in own
    assert f'<a href="/tasks/{task.pk}/"' not in own


def test_without_them_there_is_no_alert(client: Client) -> None:
    make_statistics(make_task(), 5, 5)
    for path in ("/", "/environments/math/"):
        assert "failing-tasks" not in text(client, path)


def test_some_are_named_and_all_are_counted(client: Client) -> None:
    tasks = broken(count=7)
    page = text(client, "/environments/math/")
    assert "7 tasks fail in their environment." in page and "and more" in page
    assert [task.pk for task in tasks if f'href="/tasks/{task.pk}/">train' in page] == [
        task.pk for task in tasks[2:]
    ]


def test_its_link_leads_curators_to_the_plan_of_their_quarantine() -> None:
    [task] = broken()
    make_split(make_task(), name="other")
    curator = client_of("curator")
    page = text(curator, "/environments/math/")
    link = page.partition(">Quarantine it…")[0].rpartition('href="')[2].rstrip('"')
    plan = text(curator, link.replace("&amp;", "&"))
    assert "Quarantine 1 task" in plan and "The environment fails" in plan
    Task.objects.filter(pk=task.pk).update(state="quarantined")
    task.entries.update(is_hidden=True)
    assert "failing-tasks" not in text(curator, "/environments/math/")


def test_viewers_get_no_links_to_the_admin() -> None:
    broken()
    page = text(client_of("viewer"), "/")
    assert "1 task fails in its environment." in page and "bucket=failing" not in page


def test_what_does_not_exist_for_the_viewer_is_neither_counted_nor_named() -> None:
    broken()
    split = Split.objects.get()
    sealed = Viewer(sealed_splits={split.pk: split.environment_id})
    private = Viewer(hidden_environments=frozenset({Environment.objects.get().pk}))
    assert [len(failing_tasks(viewer).ids) for viewer in (UNRESTRICTED, sealed, private)] == [
        1, 0, 0,
    ]  # fmt: skip


def test_those_of_other_environments_and_what_does_not_exist_for_the_viewer_take_no_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_READ", 2)
    [task], _ = broken(), broken("maze", count=3)
    math, maze = Environment.objects.order_by("name")
    assert failing_tasks(UNRESTRICTED, math).ids == [task.pk]
    split = Split.objects.get(environment=maze)
    for viewer in (
        Viewer(hidden_environments=frozenset({maze.pk})),
        Viewer(sealed_splits={split.pk: maze.pk}),
    ):
        assert failing_tasks(viewer).ids == [task.pk]


def test_it_takes_few_queries(django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    make_statistics(make_task(), 5, 5)
    with django_assert_max_num_queries(1):
        failing_tasks(UNRESTRICTED)
    broken(count=7)
    with django_assert_max_num_queries(6):
        failing_tasks(UNRESTRICTED)
