"""Tests of concurrent descriptions of a run, and of the training step that its episodes get."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib import import_module
from threading import Barrier

import pytest
from django.apps import apps
from django.db import connection
from django.db.models import F

from environments.models import UNRESTRICTED, Environment
from environments.runtime.records import RunInfo
from environments.scoring.definition import Definition
from episodes.figures.leaderboard.leaderboard import LeaderboardQuery
from episodes.models import Episode, Run
from episodes.recording.recorder import Recorder
from episodes.rollups.recount import rebuild, stale
from episodes.runs.trainer_updates import RunConflict, etag_of, steer
from tests.episodes.ended import count_statistics, end_episode
from tests.episodes.recorded import commit, query, run
from tests.factories import episode_ended, episode_started
from tests.stored import NOW, make_run

pytestmark = pytest.mark.django_db(transaction=True)


def steered(**description: object) -> None:
    steer("grpo-3", description, UNRESTRICTED, [])


def at_once(work: Sequence[Callable[[], None]]) -> list[BaseException | None]:
    """Run all functions concurrently, each with its own connection, and return what each raised."""
    begun = Barrier(len(work))

    def one(function: Callable[[], None]) -> BaseException | None:
        try:
            connection.ensure_connection()
            begun.wait()
            function()
        except RunConflict as error:
            return error
        finally:
            connection.close()
        return None

    with ThreadPoolExecutor(len(work)) as pool:
        return list(pool.map(one, work))


def steps() -> list[int | None]:
    return list(Episode.objects.order_by("pk").values_list("run_step", flat=True))


def test_ten_writers_of_one_run_lose_nothing() -> None:
    raised = at_once([lambda n=n: steered(step=n, tags=[f"t{n}"]) for n in range(10)])  # type: ignore[misc]
    found = Run.objects.get()
    assert found.step == 9
    assert [error is None for error in raised][9]
    assert all("before the current step" in str(error) for error in raised if error)
    assert len(found.tag_names) == 1


@pytest.mark.parametrize("own_id", ["", "w-1"])
def test_processes_that_describe_a_new_run_at_once_begin_one(own_id: str) -> None:
    for number in range(8):
        described = {"model": "m-1", "run_id": own_id}
        raised = at_once(
            [lambda: steer(f"grpo-{number}", described, UNRESTRICTED, []) and None] * 10  # noqa: B023
        )  # type: ignore[func-returns-value]
        assert raised == [None] * 10
        assert Run.objects.get(title=f"grpo-{number}").own_id == own_id


@pytest.mark.parametrize("own_id", ["", "w-1"])
def test_a_run_that_another_server_began_since_it_was_read_is_the_same(own_id: str) -> None:
    ones = [
        Run.objects.begin("tiny", None if own_id else 1, created=NOW, own_id=own_id)
        for _ in range(2)
    ]
    assert [is_new for _, is_new in ones] == [True, False]
    other, is_new = Run.objects.begin("tiny", None, created=NOW, own_id="another")
    assert is_new and other.name == "tiny (2)"
    Run.objects.begin("tiny (3)", 1, created=NOW)
    assert Run.objects.begin("tiny", None, created=NOW, own_id="w-3")[0].name == "tiny (4)"


def test_of_ten_writers_with_one_etag_one_wins() -> None:
    etag = etag_of(steer("grpo-3", {"step": 0}, UNRESTRICTED, []).run)
    raised = at_once(
        [lambda n=n: steer("grpo-3", {"step": n}, UNRESTRICTED, [etag]) and None for n in range(10)]
    )  # type: ignore[misc,func-returns-value]
    assert sum(error is None for error in raised) == 1


def test_episodes_without_a_step_get_the_current_one() -> None:
    async def play(recorder: Recorder) -> None:
        about = RunInfo("grpo-3")
        await commit(recorder, episode_started(1, run=about))
        await query(lambda: steered(step=5))
        await commit(
            recorder, episode_started(2, run=about), episode_started(3, run=RunInfo("grpo-3", 2))
        )
        await query(lambda: steered(step=6))
        await commit(
            recorder, episode_started(4, run=about), episode_started(5, run=RunInfo("other"))
        )
        await query(lambda: steered(step=None))
        await commit(recorder, episode_started(6, run=about), episode_started(7))

    run(play)
    assert steps() == [None, 5, 2, 6, None, None, None]


def test_a_run_described_before_its_first_episode_gives_its_step() -> None:
    steered(step=3, model="m-1")

    async def play(recorder: Recorder) -> None:
        await commit(recorder, episode_started(1, run=RunInfo("grpo-3", model="other")))

    run(play)
    assert steps() == [3]
    assert Run.objects.get().model == "m-1"


def test_the_recorder_reads_a_run_once_and_not_for_each_episode() -> None:
    steered(step=3)

    async def play(recorder: Recorder) -> None:
        await commit(recorder, episode_started(1, run=RunInfo("grpo-3")))
        # behind the back of this process
        await query(lambda: Run.objects.update(step=F("step") + 1))
        await commit(recorder, episode_started(2, run=RunInfo("grpo-3")))

    run(play)
    assert steps() == [3, 3]


def test_a_run_that_episodes_named_becomes_running_with_its_first_description() -> None:
    Run.objects.create(name="grpo-3", created=datetime.now(UTC))
    steered(step=1)
    assert Run.objects.get().state == "running"


def models() -> list[str]:
    return list(Episode.objects.order_by("pk").values_list("model", flat=True))


def leaderboard_of_models() -> dict[str, int]:
    """Return the attempts by model, as the statistics have them after a recount of what is due."""
    for environment in stale():
        rebuild(environment)
    return {
        row.key: row.n
        for row in LeaderboardQuery(
            Environment.objects.get(), UNRESTRICTED, None, "model", Definition()
        )
        .result()
        .rows
    }


@pytest.mark.usefixtures("no_follower")
def test_episodes_without_a_model_get_that_of_their_described_run() -> None:
    async def play(recorder: Recorder) -> None:
        about = RunInfo("grpo-3")
        await commit(recorder, episode_started(1, run=about))
        await query(lambda: steered(model="m-1"))
        await commit(
            recorder,
            episode_started(2, run=about),
            episode_started(3, run=RunInfo("grpo-3", model="own")),
        )
        await commit(recorder, episode_started(4, run=RunInfo("other", model="m-2")))
        await commit(recorder, episode_started(5, run=RunInfo("other")), episode_started(6))
        await commit(recorder, *(episode_ended(number) for number in range(1, 7)))

    run(play)
    assert models() == ["m-1", "m-1", "own", "m-2", "", ""]
    assert leaderboard_of_models() == {"m-1": 2, "own": 1, "m-2": 1}


def test_a_model_that_is_named_late_is_that_of_earlier_episodes_too() -> None:
    for model in ("", "own", ""):
        end_episode(1.0, run=make_run("grpo-3"), model=model)
    count_statistics()
    Environment.objects.update(counted=Environment.objects.get().definition)
    steered(step=1)
    assert models() == ["", "own", ""] and leaderboard_of_models() == {"own": 1}
    steered(model="m-1")
    assert models() == ["m-1", "own", "m-1"] and leaderboard_of_models() == {"m-1": 2, "own": 1}


def test_an_upgrade_names_the_models_of_described_runs() -> None:
    for name, described in (("described", NOW), ("named", None)):
        Run.objects.create(name=name, model="m-1", created=NOW, updated=described)
        end_episode(1.0, run=Run.objects.get(name=name))
        end_episode(1.0, run=Run.objects.get(name=name), model="own")
    Environment.objects.update(counted="x")
    migration = import_module("episodes.migrations.0015_models_of_described_runs")
    with connection.schema_editor() as editor:
        migration.name_models(apps, editor)
    assert models() == ["m-1", "own", "", "own"] and Environment.objects.get().counted == ""
    assert leaderboard_of_models() == {"m-1": 1, "own": 2}
