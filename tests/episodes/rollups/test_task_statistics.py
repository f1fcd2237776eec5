"""Statistics of a task, counted as its episodes end."""

from __future__ import annotations

import random
from typing import Any

import pytest
from django.db import transaction

from environments.models import Environment, Task, TaskStatistics
from environments.runtime.records import Row, RunInfo
from environments.wire import NO_NUMBER
from episodes.models import Episode
from episodes.recording.recorder import Recorder
from episodes.rollups.recount import recount_tasks
from tests.episodes.counting import misfiled, random_end, random_start, recounted, stored
from tests.episodes.recorded import commit, record, run
from tests.factories import episode_ended, episode_started, step_taken

pytestmark = pytest.mark.django_db(transaction=True)

ALL = ("echo", '{"id": 1}', "all", "")


def attempt(episode: int = 1, **changes: Any) -> tuple[Row, ...]:
    """Record an episode of one task, from start to end."""
    returned = changes.pop("returned", 0.5)
    start = {
        name: changes.pop(name) for name in ("run", "spec_json", "environment") if name in changes
    }
    returns = {f"return_{name}": returned for name in ("sum", "last", "max", "mean")}
    return episode_started(episode, **start), episode_ended(episode, **(returns | changes))


def test_it_counts_an_attempt() -> None:
    record(attempt(returned=0.5))
    assert stored() == {ALL: (1, 1, 0, 0.5, 0.5, 0.5, 0.0)}


def test_attempts_add_up() -> None:
    record(*(attempt(n, returned=score) for n, score in enumerate([0.5, 1.0, -1.0, 0.95], start=1)))
    assert stored() == {ALL: (4, 4, 2, 1.45, -1.0, 1.0, 0.5)}


def test_attempts_of_one_batch_add_up() -> None:
    record(tuple(row for n in range(1, 11) for row in attempt(n, returned=n / 10)))
    assert stored() == {ALL: (10, 10, 1, 5.5, 0.1, 1.0, 0.1)}


def test_it_counts_for_the_run_and_the_model_too() -> None:
    record(
        attempt(1, run=RunInfo("r1", None, "m1"), returned=1.0),
        attempt(2, run=RunInfo("r2", None, "m1"), returned=0.0),
        attempt(3, run=RunInfo("", None, "m2"), returned=1.0),
    )
    assert {place[2:]: (row[0], row[2]) for place, row in stored().items()} == {
        ("all", ""): (3, 2),
        ("run", "r1"): (1, 1),
        ("run", "r2"): (1, 0),
        ("model", "m1"): (2, 1),
        ("model", "m2"): (1, 1),
    }


def test_it_counts_attempts_with_a_reward_that_was_not_a_number() -> None:
    detail = f"Step 0: {NO_NUMBER}."
    record(
        attempt(1, detail=detail),
        attempt(2, detail=detail, cause="expired"),
        attempt(3, detail=detail, cause="env_error"),
        attempt(4),
    )
    assert TaskStatistics.objects.get().numberless == 2
    with transaction.atomic():
        recount_tasks([Task.objects.get().pk])
    assert TaskStatistics.objects.get().numberless == 2


def test_attempts_move_a_task_from_bucket_to_bucket() -> None:
    buckets = []
    for number, returned in enumerate([0.0, 0.0, 0.0, 0.0, 1.0], start=1):
        record(attempt(number, returned=returned))
        assert misfiled() == []
        buckets.append(TaskStatistics.objects.get(by="all").bucket)
    assert buckets == ["learnable"] * 3 + ["hopeless", "learnable"]


def test_a_task_is_unseen_until_it_is_attempted() -> None:
    record(attempt(1, cause="expired", steps=0), attempt(2, cause="interrupted"))
    assert Task.objects.get().is_unseen
    record(attempt(3))
    assert not Task.objects.get().is_unseen


@pytest.mark.parametrize(
    ("cause", "steps", "refused", "attempts"),
    [
        ("finished", 1, 0, 1),
        ("abandoned", 0, 0, 0),
        ("abandoned", 1, 0, 1),
        ("abandoned", 0, 1, 1),
        ("expired", 0, 0, 0),
        ("expired", 1, 0, 1),
        ("setup_failed", 0, 0, 0),
        ("env_error", 3, 0, 0),
        ("interrupted", 3, 0, 0),
    ],
)
def test_probes_and_infrastructure_failures_are_no_attempts(
    cause: str, steps: int, refused: int, attempts: int
) -> None:
    record(attempt(cause=cause, steps=steps, refused=refused))
    assert TaskStatistics.objects.filter(attempts__gt=0).count() == attempts


@pytest.mark.parametrize(
    ("convention", "expected"),
    [
        ("zkoo", (4, 2.5, {"no_call": 1, "expired": 1, "interrupted": 1, "env_error": 2})),
        ("okoo", (3, 2.5, {"no_call": 1, "expired": 1, "interrupted": 1, "env_error": 2})),
        ("zzoo", (4, 2.0, {"no_call": 1, "expired": 1, "interrupted": 1, "env_error": 2})),
        ("oooo", (2, 2.0, {"no_call": 1, "expired": 1, "interrupted": 1, "env_error": 2})),
        ("zkzz", (7, 2.5, {"no_call": 1, "expired": 1, "interrupted": 1, "env_error": 2})),
    ],
)
def test_it_counts_by_the_convention_in_force(convention: str, expected: tuple[Any, ...]) -> None:
    Environment.objects.create(name="echo", convention=convention)
    causes = ("finished", "abandoned", "expired", "interrupted", "env_error", "setup_failed")
    record(
        *(
            attempt(n, cause=cause, returned=1.0 if n < 3 else 0.5)
            for n, cause in enumerate(causes, 1)
        )
    )
    record(attempt(7, cause="abandoned", steps=0, is_named=True, returned=0.0))
    row = stored()[ALL]
    assert (row[0], row[3], row[-1]) == expected
    assert stored() == recounted()


@pytest.mark.parametrize(
    ("cause", "bucket"),
    [("env_error", "failing"), ("setup_failed", "failing"), ("interrupted", "unseen")],
)
def test_a_task_with_nothing_but_failures_of_the_environment_is_failing(
    cause: str, bucket: str
) -> None:
    record(attempt(cause=cause))
    kind = {"interrupted": "interrupted"}.get(cause, "env_error")
    assert stored()[ALL] == (0, 0, 0, 0.0, None, None, 0.0, {kind: 1})
    assert TaskStatistics.objects.get(by="all").bucket == bucket
    assert Task.objects.get().is_unseen == (bucket == "unseen")
    assert misfiled() == []
    record(attempt(2, returned=1.0))
    assert stored()[ALL] == (1, 1, 1, 1.0, 1.0, 1.0, 1.0, {kind: 1})
    assert TaskStatistics.objects.get(by="all").bucket == "learnable"


def test_a_task_that_fails_at_least_as_often_as_it_is_attempted_is_failing() -> None:
    buckets = []
    for number, cause in enumerate(["finished"] * 4 + ["env_error"] * 4 + ["finished"], start=1):
        record(attempt(number, returned=1.0, cause=cause))
        assert misfiled() == []
        buckets.append(TaskStatistics.objects.get(by="all").bucket)
    assert buckets == ["learnable"] * 3 + ["saturated"] * 4 + ["failing", "saturated"]


def test_a_running_episode_is_no_attempt() -> None:
    record((episode_started(), step_taken(finished=True)))
    assert stored() == {}


@pytest.mark.parametrize(
    ("definition", "score"), [("sum", 1.0), ("last", 2.0), ("max", 3.0), ("mean", None)]
)
def test_it_counts_by_the_return_in_force(definition: str, score: float | None) -> None:
    Environment.objects.create(name="echo", default_return=definition, success_threshold=1.5)
    record(attempt(return_sum=1.0, return_last=2.0, return_max=3.0, return_mean=None))
    is_scored, is_success = score is not None, (score or 0) > 1.5
    assert stored() == {ALL: (1, is_scored, is_success, score or 0.0, score, score, is_success)}


def test_an_attempt_without_return_counts_as_no_success() -> None:
    Environment.objects.create(name="echo", default_return="last", success_threshold=-1.0)
    record(attempt(1, return_last=None), attempt(2, return_last=0.25), attempt(3, return_last=None))
    assert stored() == {ALL: (3, 1, 1, 0.25, 0.25, 0.25, 1 / 3)}


def test_a_return_at_the_threshold_is_no_success() -> None:
    record(
        *(
            attempt(n, returned=value)
            for n, value in enumerate((0.9, 0.9000000000000001, 0.900000000001), 1)
        )
    )
    assert stored()[ALL][:3] == (3, 3, 1)


def test_huge_returns_stay_countable() -> None:
    assert record(*(attempt(n, returned=1.7e308) for n in range(1, 4))) == 0
    assert stored() == {ALL: (3, 3, 3, 3e290, 1e290, 1e290, 1.0)}
    assert Episode.objects.get(pk=1).return_sum == 1.7e308


def test_what_is_written_again_counts_once() -> None:
    rows = attempt(1, run=RunInfo("r1", None, "m1"))
    record(rows, rows, rows[1:])
    record(rows)
    assert {row[0] for row in stored().values()} == {1}


def test_calls_refused_after_the_end_change_nothing() -> None:
    record(
        attempt(1, steps=1), (step_taken(index=1, status="refused"), episode_ended(1, refused=1))
    )
    assert stored()[ALL][0] == 1


def test_a_rejected_batch_counts_what_it_could_keep() -> None:
    bad = episode_started(2, created=1e20)
    assert record(attempt(1), (bad, episode_ended(2)), attempt(3)) == 2
    assert stored()[ALL][0] == 2


def test_it_counts_thousands_of_attempts_at_one_task() -> None:
    async def play(recorder: Recorder) -> None:
        for n in range(1, 3001):
            recorder.record(*attempt(n, returned=n % 2, run=RunInfo(f"r{n % 3}")))
        await commit(recorder, *attempt(3001, returned=1.0))

    run(play)
    assert stored()[ALL] == (3001, 3001, 1501, 1501.0, 0.0, 1.0, 1501 / 3001)
    assert stored() == recounted()


@pytest.mark.parametrize("seed", range(3))
def test_it_counts_what_is_in_the_episodes(seed: int) -> None:
    source = random.Random(seed)
    Environment.objects.create(name="echo", default_return="max", success_threshold=0.4)
    starts = [(random_start(source, n),) for n in range(1, 101)]
    ends = [(random_end(source, n),) for n in source.sample(range(1, 101), 80)]
    again = source.sample(starts + ends, 40)
    record(*starts, *ends, *again)
    assert stored() == recounted() != {}
