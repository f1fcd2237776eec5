"""Tests of where curves pass from one revision of an environment to another, and of what is
pooled."""

from __future__ import annotations

import re
from typing import Any, cast

import pytest
from django.test import Client

from environments.models import Environment, Task
from environments.scoring.definition import Definition
from episodes.figures.block_queries import Axis
from episodes.figures.curves.curve_points import curve
from episodes.figures.curves.revision_marks import marks_of, pooled_in
from episodes.figures.scopes import scope_of
from episodes.models import EnvironmentRevision, Episode, Run
from tests.episodes.api.asking import get, ids
from tests.episodes.ended import end_episode
from tests.episodes.suites.published import make_suite, member
from tests.stored import NOW, make_environment, make_run, make_split, make_statistics, make_task

pytestmark = pytest.mark.django_db


def played(*codes: str, **values: Any) -> list[Episode]:
    """Create an episode of one task for each code, in training steps from 0 on; the next code
    begins a new revision."""
    task = Task.objects.filter(environment=make_environment()).first() or make_task()
    found: list[Episode] = []
    for step, code in enumerate(codes):
        episode = end_episode(task=task, **{"run": make_run(), "run_step": step, **values})
        latest = EnvironmentRevision.objects.order_by("-pk").first()
        if latest is None or latest.code != code * 32:
            latest = EnvironmentRevision.objects.create(
                **{
                    "environment": task.environment,
                    "code": code * 32,
                    "digest": code,
                    "versions": "{}",
                },
                **{"first_episode": episode.pk, "created": NOW},
            )
        Episode.objects.filter(pk=episode.pk).update(revision=latest)
        found.append(episode)
    return found


def marks(axis: str) -> list[tuple[str, float]]:
    drawn = curve(scope_of(Run.objects.get()), Definition("sum", 0.5), cast(Axis, axis))
    return [(mark.revision.code[0], mark.x) for mark in marks_of(drawn)]


def test_a_curve_has_a_mark_where_the_code_changes() -> None:
    played("a", "a", "b", "b", "a")
    assert marks("step") == [("b", 2.0), ("a", 4.0)]
    assert [code for code, _ in marks("episode")] == ["b", "a"]
    assert [mark["code"][0] for mark in get("curves?run=grpo-3&x=step")["revisions"]] == ["b", "a"]


def test_one_revision_has_no_mark_and_pools_nothing() -> None:
    played("a", "a")
    assert marks("step") == [] and pooled_in([scope_of(Environment.objects.get())]) == []


def test_what_is_pooled_is_listed_latest_first() -> None:
    played("a", "b", "a")
    assert [row.code[0] for row in pooled_in([scope_of(Task.objects.get())])] == ["a", "b"]


def test_episodes_are_found_by_their_revision() -> None:
    first, second, third = played("a", "b", "a")
    assert ids("episodes?revision=aaaaaaaa") == [third.pk, first.pk]
    assert ids("episodes?revision=bbbbbbbbbb") == [second.pk]
    assert "No revision is named" in get("episodes?revision=cccccccc", 400)["detail"]
    assert get(f"episodes/{second.pk}")["revision"]["code"] == "b" * 32


def test_a_task_says_that_it_pools_revisions_and_shows_one(client: Client) -> None:
    first, *_ = played("a", "b", "b")
    page = client.get(f"/tasks/{first.task_id}/").content.decode()
    assert "different code of the environment" in page and "?revision=aaaaaaaa" in page
    one = client.get(f"/tasks/{first.task_id}/?revision=bbbbbbbb").content.decode()
    assert "count only episodes that revision" in one and "n = 2" in one


def test_a_comparison_of_runs_says_that_it_pools_revisions_and_compares_one(client: Client) -> None:
    played("a", "b")
    played("b", "b", run=make_run("other"))
    runs = ",".join(str(pk) for pk in Run.objects.order_by("pk").values_list("pk", flat=True))
    page = client.get(f"/compare/?runs={runs}").content.decode()
    assert "different code of the environment" in page and "revision=aaaaaaaa" in page
    one = client.get(f"/compare/?runs={runs}&revision=bbbbbbbb").content.decode()
    assert "count only episodes that revision" in one and "1 shared task" in one


def test_a_leaderboard_says_that_it_pools_revisions(client: Client) -> None:
    played("a", "b", model="m-1")
    page = client.get("/environments/math/leaderboard/").content.decode()
    assert "different code of the environment" in page
    assert "/runs/curves/?by=model&amp;environment=math&amp;revision=bbbbbbbb" in page
    assert (
        client.get("/runs/curves/?by=model&environment=math&revision=bbbbbbbb").status_code == 200
    )
    answer = get("environments/math/leaderboard")
    assert [one["code"] for one in answer["pooled_revisions"]] == ["b" * 32, "a" * 32]


def test_a_suite_says_that_it_pools_revisions(client: Client) -> None:
    make_suite(member(make_split(played("a", "b", model="m-1")[0].task)))
    sentence = (
        "Scores in math pool episodes that different code of it played: revisions bbbbbbbb, "
        "aaaaaaaa."
    )
    assert (
        sentence in get("suites/core")["notes"]
        and sentence in client.get("/suites/core/").content.decode()
    )


def test_two_episodes_of_different_code_say_so(client: Client) -> None:
    first, second, third = played("a", "b", "b")
    sentence = "Different code of the environment played these episodes"
    assert sentence in client.get(f"/compare/?episodes={first.pk},{second.pk}").content.decode()
    assert sentence not in client.get(f"/compare/?episodes={third.pk},{second.pk}").content.decode()


def test_the_page_of_a_run_lists_the_changes(client: Client) -> None:
    played("a", "b")
    page = client.get(f"/runs/{Run.objects.get().pk}/").content.decode()
    assert "The code of the environment changed" in page and "from training step 1" in page


def test_an_environment_says_that_it_pools_revisions_and_shows_one(client: Client) -> None:
    played("a", "b", "b")
    address = "/environments/math/"
    assert "pool episodes that different code" in client.get(address).content.decode()
    page = client.get(f"{address}?revision={'b' * 8}").content.decode()
    assert "count only episodes that revision" in page
    assert re.search(
        r"environment=math&amp;[^\"]*revision=bbbbbbbb&amp;[^\"]*ending=attempt[^\"]*\">2</a>", page
    )


def scored(page: str) -> str:
    [count] = re.findall(r"Attempts with a return</dt><dd class=\"figure\">(\d+)", page)
    return count


def test_a_group_says_that_it_pools_revisions_and_shows_one(client: Client) -> None:
    [first, second] = played("a", "b", run_step=7)
    address = f"/tasks/{first.task_id}/group/?run={Run.objects.get().pk}&step=7"
    page = client.get(address).content.decode()
    assert "pool episodes that different code" in page and scored(page) == "2"
    page = client.get(f"{address}&revision={'b' * 8}").content.decode()
    assert scored(page) == "1" and f"/episodes/{second.pk}/" in page
    assert f"/episodes/{first.pk}/" not in page


def test_the_curators_list_says_that_it_pools_revisions(admin_client: Client) -> None:
    make_split(played("a", "b")[0].task)
    address = f"/admin/environments/task/?environment={Environment.objects.get().pk}"
    page = admin_client.get(address).content.decode()
    assert (
        "pool episodes that different code" in page
        and "/environments/math/?revision=bbbbbbbb" in page
    )
    EnvironmentRevision.objects.update(code="a" * 32)
    assert "pool episodes that different code" not in admin_client.get(address).content.decode()


def test_statistics_of_tasks_in_the_api_name_what_they_pool() -> None:
    task = played("a", "b")[0].task
    make_statistics(task, attempts=2, successes=1)
    for address in (f"tasks/{task.pk}", "tasks?environment=math"):
        assert [row["code"][0] for row in get(address)["pooled_revisions"]] == ["b", "a"]
    EnvironmentRevision.objects.update(code="a" * 32)
    assert get(f"tasks/{task.pk}")["pooled_revisions"] == get("tasks")["pooled_revisions"] == []
