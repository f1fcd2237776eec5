"""Tests of the results of runs at tasks, which the follower counts."""

from __future__ import annotations

import pytest

from episodes.models import Run, RunTask
from episodes.rollups.follower import catch_up
from tests.episodes.ended import end_episode
from tests.stored import make_run, make_task

pytestmark = pytest.mark.django_db(transaction=True)


def sums(run: Run) -> list[tuple[int, int, float]]:
    """Return the attempts, those that have a last reward, and the total of these."""
    return list(
        RunTask.objects.filter(run_id=run.pk).values_list("attempts", "scored_last", "total_last")
    )


def test_attempts_of_a_run_at_a_task_are_adjacent() -> None:
    run, task = make_run(), make_task()
    for reward in (0.25, 0.5):
        end_episode(reward, run=run, task=task)
    end_episode(run=run, task=task, return_last=None)
    catch_up()
    assert sums(run) == [(3, 2, 0.75)]


def test_later_endings_are_added() -> None:
    run, task = make_run(), make_task()
    for reward in (0.25, 0.5):
        end_episode(reward, run=run, task=task)
        catch_up()
    assert sums(run) == [(2, 2, 0.75)]


def test_probes_and_episodes_without_a_run_are_left_out() -> None:
    end_episode(run=make_run(), cause="abandoned", is_probe=True)
    end_episode()
    catch_up()
    assert not RunTask.objects.exists()


def test_other_endings_have_rows_of_their_own() -> None:
    run, task = make_run(), make_task()
    for cause in ("finished", "abandoned", "env_error", "no_call", "expired"):
        end_episode(0.5, run=run, task=task, cause=cause)
    catch_up()
    kinds = dict(RunTask.objects.values_list("kind", "attempts"))
    assert kinds == {"": 2, "env_error": 1, "no_call": 1, "expired": 1}
