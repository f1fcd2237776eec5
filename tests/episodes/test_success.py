"""What counts as a success, wherever it is counted: 0.1 + 0.2 is not above 0.3, although it is
0.30000000000000004.

Of three attempts one is a success: it differs from the threshold in the twelfth digit.
"""

from __future__ import annotations

import csv
import io
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from django.apps import apps
from django.db import connection
from django.test import Client

from environments.models import UNRESTRICTED, Environment, Task, TaskStatistics
from environments.scoring.definition import DefinitionOverrides, definition_of
from episodes.doctor.scope import DoctorScope
from episodes.figures.activity import activity
from episodes.models import Activity, Episode, Play, Progress
from episodes.people.play_facts import outcome_of
from episodes.people.studies.results import plays_of
from episodes.rollups.follower import catch_up
from episodes.rollups.part_runner import EMPTYING
from episodes.rollups.recount import rebuild, stale
from episodes.transcript.peers import pairs_to_compare, standings
from episodes.transfer.exporting import EpisodeExport
from tests.episodes.ended import count_statistics, end_episode
from tests.episodes.people.studies.taking_part import study_of
from tests.episodes.people.studies.test_pages import played
from tests.episodes.recorded import record
from tests.episodes.rollups.test_task_statistics import attempt
from tests.episodes.suites.published import make_suite, member
from tests.filters import episode_filter
from tests.stored import make_environment, make_run, make_split, make_task

pytestmark = pytest.mark.django_db

RETURNS = (0.1 + 0.2, 0.3, 0.300000000001)
BOARD = "/environments/math/leaderboard/"


@pytest.fixture
def task() -> Task:
    environment = make_environment("math", success_threshold=0.3, declared_threshold=0.3)
    task = make_task(environment=environment)
    split = make_split(task, environment=environment)
    for value in RETURNS:
        end_episode(
            value,
            task=task,
            environment=environment,
            split=split,
            model="m",
            run=make_run("r"),
            run_step=1,
        )
    count_statistics()
    catch_up()
    return task


def rows(client: Client, path: str) -> list[dict[str, str]]:
    answer = client.get(path)
    pieces: Any = answer.streaming_content if answer.streaming else [answer.content]
    return list(csv.DictReader(io.StringIO(b"".join(pieces).decode())))


def test_figures_of_all_kinds_count_one_success(client: Client, task: Task) -> None:
    boards = [
        f"{BOARD}?format=csv{more}"
        for more in ("", "&by=run", "&by=player", "&env_error=zero", "&threshold=0.3")
    ]
    curves = [
        f"/runs/curves/?environment=math&format=csv{more}"
        for more in ("", "&threshold=0.3", "&run=r&x=step")
    ]
    counts = {
        path: sum(int(row["successes"]) for row in rows(client, path)) for path in boards + curves
    }
    assert counts == dict.fromkeys(boards + curves, 1)
    statistics = TaskStatistics.objects.get(task=task, by="all")
    assert (statistics.attempts, statistics.successes) == (3, 1)
    assert client.get(f"/api/tasks/{task.pk}").json()["statistics"]["successes"] == 1
    assert (
        client.get(f"/tasks/{task.pk}/?env_error=zero")
        .context["facts"]
        .statistics.overall.successes
        == 1
    )
    assert sum(point.successes for point in activity("all", UNRESTRICTED, task.environment)) == 1
    assert [one.successes for one in standings(task.pk, task.environment, UNRESTRICTED)] == [1]


def test_scores_of_suites_and_the_doctor_count_one_success(client: Client, task: Task) -> None:
    split, environment = task.environment.splits.get(), task.environment
    make_suite(member(split), name="counted")
    make_suite(
        member(split, definition=definition_of(environment, DefinitionOverrides(env_error="zero"))),
        name="read",
    )
    for name in ("counted", "read"):
        [row] = rows(client, f"/suites/{name}/?format=csv")
        assert float(row["score"]) == pytest.approx(1 / 3)
    scope = DoctorScope.of(environment, {}, definition_of(environment), UNRESTRICTED)
    assert sum(one.is_success(scope.definition) for one in scope.attempts) == 1


def test_exports_and_pairs_take_one_success(task: Task) -> None:
    noisy, equal, best = Episode.objects.order_by("pk")
    for filter_ in (episode_filter(success=True), episode_filter(success=True, definition="last")):
        assert list(EpisodeExport(filter_, "csv").episodes()) == [best]
    make_environment("other", success_threshold=0.5)
    assert list(EpisodeExport(episode_filter(success=True), "csv").episodes()) == [best]
    assert pairs_to_compare(Episode.objects.all()) == [(equal.pk, best.pk)]
    least = EpisodeExport(episode_filter(), "csv", least_return=0.1 + 0.2)
    assert set(least.episodes()) == {noisy, equal, best}


@pytest.mark.parametrize(("value", "is_success"), [(0.1 + 0.2, False), (0.300000000001, True)])
def test_a_play_and_a_study_tell_the_same(task: Task, value: float, is_success: bool) -> None:
    study = study_of(task.environment.splits.get())
    play = played(
        study,
        return_sum=value,
        return_last=value,
        return_max=value,
        return_mean=value,
        steps_count=1,
    )
    [one] = plays_of(study)
    episode = Episode.objects.select_related("environment", "split", "task", "play").get(
        pk=play.episode_id
    )
    assert one.is_success is is_success and outcome_of(episode)["is_success"] is is_success
    assert Play.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_the_recorder_counts_one_success() -> None:
    make_environment("echo", success_threshold=0.3)
    record(
        tuple(
            row
            for number, value in enumerate(RETURNS, 1)
            for row in attempt(number, returned=value)
        )
    )
    assert list(TaskStatistics.objects.filter(by="all").values_list("attempts", "successes")) == [
        (3, 1)
    ]


def count_again() -> None:
    migration = import_module("episodes.migrations.0055_rounded_success")
    migration.count_again(apps, SimpleNamespace(connection=connection))


def test_an_upgrade_counts_again_what_was_counted_before(task: Task) -> None:
    """An earlier version counted the first return, which is above 0.3 until it is rounded."""
    other = make_task(environment=make_environment("other", success_threshold=0.3))
    end_episode(0.3, task=other, environment=other.environment)
    catch_up()
    for environment in Environment.objects.all():
        rebuild(environment)
    TaskStatistics.objects.filter(task=task).update(successes=2)
    Activity.objects.filter(environment_id=task.environment_id).update(successes=2)
    count_again()
    assert [row.name for row in stale()] == ["math"]
    rebuild(task.environment)
    catch_up()
    assert set(TaskStatistics.objects.filter(task=task).values_list("successes", flat=True)) == {1}
    assert sum(point.successes for point in activity("all", UNRESTRICTED, task.environment)) == 1


def test_an_upgrade_counts_nothing_again_where_no_return_is_at_the_threshold(task: Task) -> None:
    Environment.objects.update(success_threshold=0.25, declared_threshold=0.25)
    rebuild(Environment.objects.get())
    count_again()
    assert stale() == [] and not Progress.objects.filter(end_number=EMPTYING).exists()


@pytest.mark.parametrize("path", [BOARD, "/environments/math/", "/runs/1/", "/tasks/{}/"])
def test_pages_show_the_digits_of_a_threshold_that_decide(
    client: Client, task: Task, path: str
) -> None:
    task.environment.success_threshold = 0.2999999999
    task.environment.save()
    run = make_run("r").pk
    page = client.get(path.format(task.pk).replace("/1/", f"/{run}/")).content.decode()
    assert "&gt; 0.2999999999" in page and "&gt; 0.3<" not in page
