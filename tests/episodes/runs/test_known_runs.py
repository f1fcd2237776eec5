"""Tests of which run an episode belongs to when its client names one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from environments.models import UNRESTRICTED
from environments.runtime.records import RunInfo
from episodes.models import Episode, Run
from episodes.recording.recorder import Recorder
from episodes.runs.known_runs import QUIET_SECONDS
from episodes.runs.trainer_updates import steer
from tests.episodes.recorded import commit, query, run
from tests.factories import NOON, episode_ended, episode_started
from tests.rows import each

pytestmark = pytest.mark.django_db(transaction=True)
FIRST, SECOND, THIRD = "tiny", "tiny (2)", "tiny (3)"
Played = dict[str, Any]
"""An episode of the title `tiny`: fields of RunInfo, and `after`, when it starts in seconds."""


async def play(recorder: Recorder, episodes: Sequence[Played], number: int = 1) -> None:
    """Record the episodes one after the other. Each has ended when the next one starts."""
    for place, episode in enumerate(episodes, start=number):
        fields = {"name": "tiny", **episode}
        started = NOON + fields.pop("after", 0.0)
        about = RunInfo(**fields)
        await commit(
            recorder, episode_started(place, run=about, created=started), episode_ended(place)
        )


def names() -> list[str]:
    return list(Episode.objects.order_by("pk").values_list("run__name", flat=True))


def steered(**description: object) -> None:
    steer("tiny", description, UNRESTRICTED, [])


QUIET = QUIET_SECONDS + 1


@each(
    ("episodes", "expected"),
    [
        ([{"step": 40}, {"step": 37}, {"step": 41}, {"step": 33}], [FIRST] * 4),
        ([{"step": 40}, {"step": 1}, {"step": 2}, {"step": 60}], [FIRST, SECOND, SECOND, SECOND]),
        ([{"step": 3}, {"step": 1}], [FIRST, FIRST]),
        ([{"step": step} for step in (0, 100, 200, 0, 100, 200)], [FIRST] * 3 + [SECOND] * 3),
        ([{"step": step} for step in (0, 100, 0, 100)], [FIRST] * 2 + [SECOND] * 2),
        (
            [{"step": 3}, {"step": 1, "after": QUIET}, {"step": 2, "after": QUIET}],
            [FIRST, SECOND, SECOND],
        ),
        ([{"step": 3}, {"step": 3, "after": QUIET}, {"step": 9, "after": 9 * QUIET}], [FIRST] * 3),
        ([{"step": 40}, {}, {"step": 1}, {}], [FIRST, FIRST, SECOND, SECOND]),
        (
            [{"model": "a"}, {"model": "b"}, {"model": "a"}, {}, {"model": "b"}],
            [FIRST, SECOND, FIRST, SECOND, SECOND],
        ),
        ([{}, {"model": "a"}, {"model": "b"}], [FIRST, FIRST, SECOND]),
        ([{"step": 40}, {"step": 1, "is_resumed": True}, {"step": 41}], [FIRST] * 3),
        ([{"own_id": "x"}, {"own_id": "y"}, {"own_id": "x", "model": "a"}], [FIRST, SECOND, FIRST]),
        ([{"own_id": "x", "step": 40}, {"own_id": "x", "step": 1}], [FIRST, FIRST]),
        (
            [{"step": 40}, {"step": 1}, {"name": SECOND, "step": 40}, {"name": SECOND, "step": 1}],
            [FIRST] + [SECOND] * 3,
        ),
        ([{"name": SECOND}, {"step": 40}, {"step": 1}], [SECOND, FIRST, THIRD]),
    ],
)
def test_an_episode_continues_a_run_or_begins_the_next_one(
    episodes: Sequence[Played], expected: list[str]
) -> None:
    Episode.objects.all().delete()
    Run.objects.all().delete()
    run(lambda recorder: play(recorder, episodes))
    assert names() == expected


def test_two_trainings_at_different_steps_under_one_name_stay_apart() -> None:
    episodes = [step for pair in range(30) for step in ({"step": 60 + pair}, {"step": 1 + pair})]
    run(lambda recorder: play(recorder, episodes))
    assert names() == [FIRST, SECOND] * 30


def test_a_training_that_is_begun_again_does_not_join_the_one_that_broke_off_when_it_gets_as_far() -> (
    None
):
    run(lambda recorder: play(recorder, [{"step": 20}, *({"step": step} for step in range(1, 30))]))
    assert names() == [FIRST, *[SECOND] * 29]


def test_a_late_episode_of_a_step_that_is_still_played_is_no_step_back() -> None:
    async def plays(recorder: Recorder) -> None:
        about = RunInfo("tiny", 3)
        await commit(recorder, episode_started(1, run=about))
        await commit(recorder, episode_started(2, run=RunInfo("tiny", 2), created=NOON + QUIET))

    run(plays)
    assert names() == [FIRST, FIRST]


def test_only_the_step_before_is_late_in_a_run_that_counts_in_tens_and_is_still_played() -> None:
    async def plays(recorder: Recorder) -> None:
        for place, step in enumerate((10, 20, 10, 30, 20, 10), start=1):
            await commit(recorder, episode_started(place, run=RunInfo("tiny", step)))

    run(plays)
    assert names() == [FIRST] * 5 + [SECOND]


def test_an_episode_after_the_end_of_its_run_begins_the_next_one_unless_it_resumes() -> None:
    async def plays(recorder: Recorder) -> None:
        await play(recorder, [{"step": 5}])
        await query(lambda: steered(state="ended"))
        await play(recorder, [{"step": 6, "is_resumed": True}, {"step": 7}], 2)
        await query(lambda: steered(state="failed"))
        await play(recorder, [{"step": 8}, {"step": 9}], 4)

    run(plays)
    assert names() == [FIRST, FIRST, FIRST, SECOND, SECOND]
    assert list(Run.objects.order_by("pk").values_list("title", "number", "state")) == [
        ("tiny", 1, "failed"), ("tiny", 2, ""),
    ]  # fmt: skip


def test_a_trainer_says_when_its_run_has_another_model() -> None:
    steered(step=0, model="Qwen/Qwen3")

    async def plays(recorder: Recorder) -> None:
        await play(recorder, [{"model": "qwen"}, {"model": "baseline"}])
        await query(lambda: steered(state="running", step=0, model="other"))
        await play(recorder, [{"model": "qwen"}, {"model": "Qwen/Qwen3"}, {}], 3)

    run(plays)
    assert names() == [FIRST, FIRST, SECOND, FIRST, SECOND]


def test_what_comes_after_a_restart_of_the_server_is_judged_by_what_is_recorded() -> None:
    run(lambda recorder: play(recorder, [{"step": 40, "model": "a"}]))
    run(lambda recorder: play(recorder, [{"step": 38}, {"step": 1}, {"step": 41, "model": "b"}], 2))
    assert names() == [FIRST, FIRST, SECOND, SECOND]


def test_the_name_of_a_second_run_fits_its_column() -> None:
    title = "x" * 200
    run(
        lambda recorder: play(
            recorder, [{"name": title, "model": model} for model in ("a", "b", "b")]
        )
    )
    assert names() == [title, *[f"{'x' * 196} (2)"] * 2]
