"""The report of an upgrade: figures, buckets and leaderboard rows before and after episodes without
a call counted."""

from __future__ import annotations

import io

import pytest
from django.core.management import call_command

from episodes.models import Run
from tests.episodes.ended import end_episode
from tests.stored import make_run, make_task

pytestmark = pytest.mark.django_db


def report(*arguments: str) -> list[str]:
    output = io.StringIO()
    call_command("report_no_calls", *arguments, stdout=output)
    return [line.strip() for line in output.getvalue().splitlines()]


def play(run: Run, solved: int, silent: int) -> int:
    """Record attempts of a run at a new task; return the task's id."""
    task = make_task()
    for _ in range(solved):
        end_episode(1.0, task=task, run=run, model="m")
    for _ in range(silent):
        end_episode(0.0, task=task, run=run, model="m", cause="no_call", steps_count=0)
    return task.pk


def test_it_lists_what_changed() -> None:
    run = make_run()
    learnable, unseen = play(run, 4, 4), play(run, 0, 1)
    assert report() == [
        "math: 5 episodes ended without a tool call",
        "all attempts: attempts 4 -> 9, mean return 1 -> 0.4444, success 100.0 % -> 44.4 %",
        "leaderboard by model, m: attempts 4 -> 9, mean return 1 -> 0.4444, success 100.0 % -> "
        "44.4 %",
        "leaderboard by run, grpo-3: attempts 4 -> 9, mean return 1 -> 0.4444, success 100.0 % -> "
        "44.4 %",
        "buckets: 1 task moved from saturated to learnable",
        "buckets: 1 task moved from unseen to learnable",
        f"task {learnable}: saturated -> learnable",
        f"task {unseen}: unseen -> learnable",
    ]


def test_large_returns_are_written_out() -> None:
    end_episode(1_250_000.0, model="m")
    end_episode(0.0, model="m", cause="no_call", steps_count=0)
    assert "leaderboard by model, m: attempts 1 -> 2, mean return 1,250,000 -> 625,000" in "".join(
        report()
    )


def test_a_long_report_is_shortened() -> None:
    run = make_run()
    for _ in range(22):
        play(run, 0, 1)
    assert "... and 2 more tasks; --all lists them" in report()
    assert len(report("--all")) == 27


def test_it_says_that_nothing_changed() -> None:
    end_episode()
    assert report() == ["No agent's episode ended without a tool call, so no figure has changed."]
