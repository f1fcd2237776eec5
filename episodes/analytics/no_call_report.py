"""What changed when agents' episodes without a tool call became attempts: figures, buckets and rows
of leaderboards.

`manage.py report_no_calls` prints it after an upgrade. Before, these episodes were left out; now
each counts as a return of 0. Their number by task, run and model is therefore all that is needed to
compute the earlier figures exactly from TaskStatistics.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.db.models import Count

from environments.models import Environment, TaskStatistics
from environments.scoring.definition import definition_of
from environments.scoring.task_buckets import Bucket, Thresholds, bucket_of
from episodes.attempts.rule import NO_CALL
from episodes.models import Episode

_CHUNK = 500
"""Number of tasks whose statistics one query reads."""
Calls = Mapping[tuple[str, str], Mapping[int, int]]
"""Episodes without a call by `by` and key of TaskStatistics, then by task."""


class BeforeAfter(NamedTuple):
    """A success rate and a mean return before the change and after it; None without an attempt."""

    attempts: tuple[int, int]
    mean: tuple[float | None, float | None]
    success: tuple[float | None, float | None]


class ChangedRow(NamedTuple):
    """A row of a leaderboard, or all attempts of an environment if `by` is "all"."""

    by: str
    key: str
    figures: BeforeAfter


class ChangedTask(NamedTuple):
    """A task that is in another bucket now."""

    task: int
    before: Bucket
    after: Bucket


@dataclass(frozen=True, slots=True)
class NoCallReport:
    environment: Environment
    episodes: int
    """Number of episodes without a call that count now."""
    rows: Sequence[ChangedRow]
    """The environment itself first, then runs and models, those with most such episodes first."""
    tasks: Sequence[ChangedTask]
    """Tasks that changed their bucket, by id."""

    @property
    def moves(self) -> Counter[tuple[Bucket, Bucket]]:
        """Number of tasks by their bucket before and after."""
        return Counter((task.before, task.after) for task in self.tasks)


def no_call_report(environment: Environment, thresholds: Thresholds) -> NoCallReport:
    """Return what changed in one environment. Its TaskStatistics must have been counted again."""
    calls = _no_calls(environment)
    overall = calls.get(("all", ""), {})
    zero_succeeds = definition_of(environment).is_success(0.0)
    order = sorted(calls, key=lambda one: (one[0] != "all", -sum(calls[one].values()), one))
    return NoCallReport(
        environment=environment,
        episodes=sum(overall.values()),
        rows=[
            ChangedRow(*key, _figures(environment, *key, calls[key], zero_succeeds=zero_succeeds))
            for key in order
        ],
        tasks=_moved(overall, thresholds, zero_succeeds=zero_succeeds),
    )


def _no_calls(environment: Environment) -> Calls:
    rows = Episode.objects.ended().filter(environment=environment, cause=NO_CALL).order_by()
    found: dict[tuple[str, str], dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for task, run, model, count in rows.values_list("task", "run__name", "model").annotate(
        count=Count("pk")
    ):
        for by, key in {"all": "", "run": run or "", "model": model}.items():
            if key or by == "all":
                found[by, key][task] += count
    return found


def _figures(
    environment: Environment, by: str, key: str, calls: Mapping[int, int], *, zero_succeeds: bool
) -> BeforeAfter:
    rows = TaskStatistics.objects.filter(environment=environment, by=by, key=key)
    columns = list(rows.values_list("attempts", "scored", "successes", "return_total"))
    attempts, scored, successes = (sum(int(row[place]) for row in columns) for place in range(3))
    total, count = sum(row[3] for row in columns), sum(calls.values())
    earlier = (attempts - count, successes - count * zero_succeeds)
    return BeforeAfter(
        attempts=(earlier[0], attempts),
        mean=(
            total / (scored - count) if scored > count else None,
            total / scored if scored else None,
        ),
        success=(
            earlier[1] / earlier[0] if earlier[0] else None,
            successes / attempts if attempts else None,
        ),
    )


def _moved(
    calls: Mapping[int, int], thresholds: Thresholds, *, zero_succeeds: bool
) -> list[ChangedTask]:
    found, tasks = list[ChangedTask](), sorted(calls)
    for start in range(0, len(tasks), _CHUNK):
        rows = TaskStatistics.objects.filter(task__in=tasks[start : start + _CHUNK], by="all")
        for task, attempts, successes in rows.values_list("task", "attempts", "successes"):
            count = calls[task]
            earlier, earlier_successes = attempts - count, successes - count * zero_succeeds
            before = bucket_of(earlier, earlier_successes / earlier if earlier else 0.0, thresholds)
            after = bucket_of(attempts, successes / attempts, thresholds)
            if before != after:
                found.append(ChangedTask(task, before, after))
    return sorted(found)
