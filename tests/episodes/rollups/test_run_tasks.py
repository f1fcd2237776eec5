"""Tests of the results of runs at tasks, which the follower counts and the comparison of runs
reads."""

from __future__ import annotations

import pytest

from environments.scoring.definition import Definition
from episodes.figures.comparison import run_comparison as module
from episodes.figures.comparison.run_comparison import Pairing, paired
from episodes.figures.summary_cover import STILL_COUNTED
from episodes.models import Run, RunTask
from episodes.rollups.follower import catch_up, start_over
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


def two_runs() -> tuple[Run, Run]:
    """Record attempts at one task, the second with a return that sums cannot hold."""
    first, second, task = make_run("first"), make_run("second"), make_task()
    for run, reward in ((first, 0.5), (first, 1.0), (second, 1e300)):
        end_episode(reward, run=run, task=task)
    return first, second


def means(pairing: Pairing) -> list[tuple[float, int]]:
    return [(one.mean, one.scored) for one in pairing.versus]


def test_comparing_runs_before_and_after_their_endings_are_followed_is_equal() -> None:
    runs = two_runs()
    before = means(paired(runs, Definition(), 9))
    catch_up()
    assert before == means(paired(runs, Definition(), 9)) == [(0.75, 2), (1e290, 1)]


def test_what_is_followed_and_what_is_not_count_together_once() -> None:
    first, second = two_runs()
    catch_up()
    end_episode(
        0.0,
        run=first,
        task_id=RunTask.objects.filter(run_id=first.pk).values_list("task_id").get()[0],
    )
    assert means(paired((first, second), Definition(), 9))[0] == (0.5, 3)


def test_rows_do_not_count_while_they_are_rebuilt() -> None:
    runs = two_runs()
    catch_up()
    start_over()
    assert means(paired(runs, Definition(), 9))[0] == (0.75, 2)


def test_older_endings_that_were_not_followed_are_reported_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = two_runs()
    monkeypatch.setattr(module, "MAX_ENDINGS", 1)
    behind = paired(runs, Definition(), 9)
    catch_up()
    assert (behind.missing, paired(runs, Definition(), 9).missing) == (STILL_COUNTED, "")
