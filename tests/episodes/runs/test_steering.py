"""Tests of concurrent descriptions of a run, and of the training step that its episodes get."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from django.db import connection
from django.db.models import F

from environments.runtime.records import RunInfo
from episodes.models import Episode, Run
from episodes.recording.recorder import Recorder
from episodes.runs.steering import RunConflict, etag_of, steer
from tests.episodes.recorded import commit, query, run
from tests.factories import episode_started

pytestmark = pytest.mark.django_db(transaction=True)


def steered(**description: object) -> None:
    steer("grpo-3", description, None, [])


def at_once(work: Sequence[Callable[[], None]]) -> list[BaseException | None]:
    """Run all functions concurrently, each with its own connection, and return what each raised."""

    def one(function: Callable[[], None]) -> BaseException | None:
        try:
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


def test_of_ten_writers_with_one_etag_one_wins() -> None:
    etag = etag_of(steer("grpo-3", {"step": 0}, None, []).run)
    raised = at_once([lambda n=n: steer("grpo-3", {"step": n}, None, [etag]) and None for n in range(10)])  # type: ignore[misc,func-returns-value]
    assert sum(error is None for error in raised) == 1


def test_episodes_without_a_step_get_the_current_one() -> None:
    async def play(recorder: Recorder) -> None:
        about = RunInfo("grpo-3")
        await commit(recorder, episode_started(1, run=about))
        await query(lambda: steered(step=5))
        await commit(recorder, episode_started(2, run=about), episode_started(3, run=RunInfo("grpo-3", 2)))
        await query(lambda: steered(step=6))
        await commit(recorder, episode_started(4, run=about), episode_started(5, run=RunInfo("other")))
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
        await query(lambda: Run.objects.update(step=F("step") + 1))  # behind the back of this process
        await commit(recorder, episode_started(2, run=RunInfo("grpo-3")))

    run(play)
    assert steps() == [3, 3]


def test_a_run_that_episodes_named_becomes_running_with_its_first_description() -> None:
    Run.objects.create(name="grpo-3", created=datetime.now(UTC))
    steered(step=1)
    assert Run.objects.get().state == "running"
