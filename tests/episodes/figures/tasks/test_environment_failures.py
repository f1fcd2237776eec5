"""What a task's page says of the environment's failures at it."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from environments.models import Task
from tests.episodes.ended import count_statistics, end_episode
from tests.people import client_of
from tests.stored import make_split, make_step, make_task

pytestmark = pytest.mark.django_db


def failed(task: Task, error: str, reason: str = "KeyError", tool: str = "submit") -> int:
    """Create an episode that ends by an exception in its second call."""
    episode = end_episode(None, task=task, cause="env_error", failed_count=1)
    make_step(episode)
    make_step(episode, status="failed", tool=tool, reason=reason, error=error)
    return episode.pk


def broken_task() -> tuple[Task, list[int]]:
    """Return a task that always fails: three times by one exception, then by two others."""
    task = make_task()
    make_split(task)
    ids = [failed(task, "'tests'", tool=tool) for tool in ("submit", "submit", "run_tests")]
    ids.append(failed(task, "", "timeout"))
    setup = end_episode(None, task=task, cause="setup_failed", detail="ValueError: no <way>")
    count_statistics()
    return task, [*ids, setup.pk]


def section(client: Client, task: Task) -> str:
    page = client.get(f"/tasks/{task.pk}/").content.decode()
    return page.partition('id="failed"')[2].partition("</section>")[0]


def test_equal_exceptions_are_one_cluster_with_its_episodes(client: Client) -> None:
    task, ids = broken_task()
    [first, second, third] = re.findall(r"<tr><td.*?</tr>", section(client, task), re.DOTALL)
    assert "KeyError: &#x27;tests&#x27;" in first and "run_tests</code>, <code>submit" in first
    links = [int(pk) for pk in re.findall(r'href="/episodes/(\d+)/"', first)]
    assert links == ids[2::-1] and '<td class="right number">3</td>' in first
    assert {"timeout" in row for row in (second, third)} == {True, False}
    assert "ValueError: no &lt;way&gt;" in second + third and "<code>setup</code>" in second + third


def test_a_task_that_always_failed_is_failing_and_nobody_is_said_not_to_have_played_it(
    client: Client,
) -> None:
    task, ids = broken_task()
    page = client.get(f"/tasks/{task.pk}/").content.decode()
    assert 'data-bucket="failing"' in page and "unseen" not in page
    assert "5 of 5 episodes ended by a failure of the environment" in page
    assert "Nobody" not in page and "No attempts" not in page
    peers = client.get(f"/episodes/{ids[0]}/").content.decode().partition('id="peers"')[2]
    assert "All 5 episodes failed in the environment." in peers


def test_a_definition_of_the_address_finds_the_same_failures(client: Client) -> None:
    task, _ = broken_task()
    page = client.get(f"/tasks/{task.pk}/?return=max").content.decode()
    assert 'data-bucket="failing"' in page and "5 of 5 episodes" in page


def test_a_failure_among_attempts_is_shown_below_them(client: Client) -> None:
    task = make_task()
    for _ in range(2):
        end_episode(1.0, task=task)
    failed(task, "'tests'")
    count_statistics()
    page = client.get(f"/tasks/{task.pk}/").content.decode()
    assert "n too small" in page and page.index("people-beside") < page.index("What failed")


def test_curators_quarantine_it_with_one_click() -> None:
    task, _ = broken_task()
    curator = client_of("curator")
    form = section(curator, task).partition("<form")[2].partition("</form>")[0]
    path = re.findall(r'action="([^"]+)"', form)[0]
    values = dict(re.findall(r'name="(action|reason)" value="([^"]+)"', form))
    curator.post(path, values)
    task.refresh_from_db()
    assert task.state == "quarantined" and task.reason.startswith("The environment fails: KeyError")
    assert "<form" not in section(curator, task)


def test_others_do_not_quarantine() -> None:
    task, _ = broken_task()
    assert "<form" not in section(client_of("viewer"), task)


def test_it_takes_few_queries_however_many_failed(
    client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    task, _ = broken_task()
    for _ in range(20):
        failed(task, "'tests'")
    count_statistics()
    client.get("/")
    with django_assert_max_num_queries(24):
        client.get(f"/tasks/{task.pk}/")


def test_what_a_task_that_always_failed_lacks_is_left_out(client: Client) -> None:
    task, _ = broken_task()
    page = client.get(f"/tasks/{task.pk}/").content.decode()
    assert "By model and run" not in page and "People and agents" not in page
    assert "Mean return" not in page and "<th>Group</th>" not in page


def test_a_task_that_is_quarantined_has_the_same_name_everywhere(client: Client) -> None:
    task, _ = broken_task()
    task.entries.update(is_hidden=True)
    Task.objects.filter(pk=task.pk).update(state="quarantined")
    for path in (f"/tasks/{task.pk}/", "/suites/", f"/api/tasks/{task.pk}"):
        assert f"task {task.pk}" not in client.get(path).content.decode(), path
    page = client.get(f"/tasks/{task.pk}/").content.decode()
    assert '<span class="tag">train #0 (quarantined)</span>' in page
    assert f"task {task.pk}" not in page
