"""Statistics counted from the beginning: after an override, by hand, while episodes end."""

from __future__ import annotations

import asyncio
import random
import threading
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models import F
from pytest_django.fixtures import Settings

from environments.database.json_rows import ID_LISTS
from environments.models import Environment, Task, TaskStatistics
from environments.runtime.records import Row
from episodes.models import Episode
from episodes.recording.recorder import Recorder
from episodes.rollups import recount
from episodes.rollups.task_statistics import recorded_sql
from tests.episodes.counting import misfiled, random_end, random_start, recounted, stored
from tests.episodes.recorded import DEADLINE_SECONDS, query, record, run
from tests.factories import episode_ended, episode_started
from tests.stored import make_statistics

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def no_upkeep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("episodes.recording.upkeep.Upkeep._recount", lambda upkeep: None)


@pytest.fixture
def played(no_upkeep: None) -> random.Random:
    """Record 100 episodes of two environments, of which 50 are still running."""
    source = random.Random(5)
    starts: list[tuple[Row, ...]] = [(random_start(source, n),) for n in range(1, 101)]
    record(*starts, *((random_end(source, n),) for n in source.sample(range(1, 101), 50)))
    return source


def override(**fields: Any) -> None:
    Environment.objects.update(**fields)


def end_some(source: random.Random, number: int) -> None:
    """End twenty running episodes, record ten others from start to end, and start one more."""
    running = list(
        Episode.objects.filter(status="running").order_by("pk").values_list("pk", flat=True)
    )
    new = range(number * 100, number * 100 + 10)
    ends = [random_end(source, n) for n in (*source.sample(running, 20), *new)]
    record(tuple(random_start(source, n) for n in (*new, new.stop)), tuple(ends))


def rebuild_all() -> None:
    for environment in recount.stale():
        recount.rebuild(environment)


@pytest.mark.parametrize("definition", ["sum", "last", "max", "mean"])
def test_it_follows_an_override(played: random.Random, definition: str) -> None:
    override(default_return=definition, success_threshold=0.4)
    rebuild_all()
    assert stored() == recounted() != {}
    assert recount.stale() == []


def test_it_counts_what_an_earlier_version_recorded(played: random.Random) -> None:
    TaskStatistics.objects.all().delete()
    rebuild_all()
    assert stored() == recounted() != {}


def test_it_removes_statistics_without_episodes(played: random.Random) -> None:
    echo = Environment.objects.get(name="echo")
    task = Task.objects.create(environment=echo, content_hash="x", spec="x")
    TaskStatistics.objects.create(
        task=task,
        environment=echo,
        by="all",
        attempts=5,
        scored=5,
        successes=5,
        return_total=5,
        rate=1.0,
    )
    rebuild_all()
    assert stored() == recounted()


def test_it_follows_other_thresholds_of_the_buckets(
    played: random.Random, settings: Settings
) -> None:
    rebuild_all()
    settings.ORSWEB_BUCKET_ATTEMPTS, settings.ORSWEB_BUCKET_HOPELESS = 1, 0.3
    assert misfiled() != []
    rebuild_all()
    assert misfiled() == [] == recount.stale()


def test_a_task_without_episodes_is_unseen_again(played: random.Random) -> None:
    unplayed = Task.objects.create(
        environment=Environment.objects.get(name="echo"), content_hash="x", spec="x"
    )
    make_statistics(unplayed, 5, 5)
    rebuild_all()
    assert misfiled() == []


@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 3, 5), (200, 1000, 0)])
def test_it_counts_in_parts(
    played: random.Random, monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, ...]
) -> None:
    for name, size in zip(("CHUNK_TASKS", "MAX_ROWS", "MAX_RUNNING"), sizes, strict=True):
        monkeypatch.setattr(recount, name, size)
    TaskStatistics.objects.update(attempts=F("attempts") + 7)
    rebuild_all()
    assert stored() == recounted()


@pytest.mark.parametrize("moment", ["_boundary", "_settled_rows", "_parts"])
@pytest.mark.parametrize("most_running", [3, 5000])
def test_it_counts_what_ends_meanwhile_once(
    played: random.Random, monkeypatch: pytest.MonkeyPatch, moment: str, most_running: int
) -> None:
    step, numbers = getattr(recount, moment), iter(range(2, 100))

    def meanwhile(*args: Any) -> Any:
        if not connection.in_atomic_block:
            end_some(played, next(numbers))
        return step(*args)

    monkeypatch.setattr(recount, "MAX_RUNNING", most_running)
    monkeypatch.setattr(recount, moment, meanwhile)
    override(default_return="max")
    rebuild_all()
    assert stored() == recounted() != {}


def test_a_recount_that_was_stopped_is_due_again(played: random.Random) -> None:
    rebuild_all()
    override(default_return="max")
    stop = threading.Event()
    echo = Environment.objects.get(name="echo")
    recount.rebuild(echo, stop=stop, progress=lambda done: stop.set())
    assert recount.rebuild(echo, stop=stop) == 0
    assert echo in recount.stale()


def test_a_definition_that_changes_during_a_recount_makes_it_due_again(
    played: random.Random,
) -> None:
    echo = Environment.objects.get(name="echo")
    recount.rebuild(echo, progress=lambda done: override(default_return="max", counted=""))
    override(default_return="sum")
    assert echo in recount.stale()


def test_it_reports_its_progress(played: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recount, "CHUNK_TASKS", 3)
    heard: list[int] = []
    assert recount.rebuild(Environment.objects.get(name="echo"), progress=heard.append) == 4
    assert heard == [3, 4]


def test_the_recorder_recounts_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("episodes.recording.upkeep.CHECK_SECONDS", 0.01)
    record((episode_started(), episode_ended(return_sum=0.0, return_max=1.0)))
    override(default_return="max")

    async def play(recorder: Recorder) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while await query(recount.stale):
                pass

    run(play, has_duties=True)
    assert stored() == recounted()


def test_the_command_counts_one_environment_or_all(
    played: random.Random, capsys: pytest.CaptureFixture[str]
) -> None:
    TaskStatistics.objects.all().delete()
    call_command("rebuild_statistics", "--environment", "echo")
    assert capsys.readouterr().out == "echo: 4 tasks counted\n"
    assert set(TaskStatistics.objects.values_list("environment__name", flat=True)) == {"echo"}
    call_command("rebuild_statistics")
    assert stored() == recounted()


def test_the_command_names_the_environments_there_are(played: random.Random) -> None:
    with pytest.raises(
        CommandError,
        match=r"No environment is named 'chess'\. There are '\w+', "
        r"'\w+'\.",
    ):
        call_command("rebuild_statistics", "--environment", "chess")


if connection.vendor == "sqlite":  # its plan does not depend on the content of the tables

    def test_what_ended_meanwhile_is_found_by_its_id() -> None:
        sql = recorded_sql(recount._SINCE.format(list=ID_LISTS["sqlite"]))
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN QUERY PLAN {sql}", ["[1]", 1, "[1]"])
            plan = [row[-1] for row in cursor.fetchall()]
        assert "SEARCH e USING INTEGER PRIMARY KEY (rowid=?)" in plan
