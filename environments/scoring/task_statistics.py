"""The statistics of one task, as pages show them: over all attempts, by run and by model.

Read from TaskStatistics, which the recorder updates. The caller passes the thresholds of the
buckets (`environments/conf.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from environments.models import Task, TaskStatistics
from environments.scoring.attempt_figures import Figures
from environments.scoring.convention import (
    COUNTED_PARTS,
    Convention,
    Coverage,
    coverage_of,
    kinds_counted,
)
from environments.scoring.task_buckets import Bucket, Thresholds, bucket_of

MAX_KEYS = 100
"""Runs or models of a task that are read, those with most attempts first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult(Figures):
    """Figures of all attempts at one task, or of those of one run or model."""

    key: str
    """Name of the run or model; empty for all attempts."""
    low: float | None
    """Lowest return; None if there are none."""
    high: float | None
    """Highest return; None if there are none."""
    bucket: Bucket

    @property
    def attempts(self) -> int:
        """Equal to `n`: templates show a TaskResult and a TaskStatistics row by the same
        filters."""
        return self.n


@dataclass(frozen=True, slots=True)
class Statistics:
    overall: TaskResult
    runs: tuple[TaskResult, ...]
    """MAX_KEYS runs at most: those with most attempts first, then by name."""
    models: tuple[TaskResult, ...]
    """MAX_KEYS models at most, in the order of `runs`."""


_NONE = TaskStatistics(
    by="all", key="", attempts=0, scored=0, successes=0, return_total=0.0, rate=0.0
)


def statistics_of(task: Task, thresholds: Thresholds) -> Statistics:
    """Return the figures of all attempts at `task`, which has its environment, by run and by model.
    Three queries."""
    convention = Convention.from_code(task.environment.convention)
    return Statistics(
        overall=next(iter(_read(task, "all", thresholds)), result_of(None, thresholds, convention)),
        runs=_read(task, "run", thresholds),
        models=_read(task, "model", thresholds),
    )


def result_of(
    row: TaskStatistics | None, thresholds: Thresholds, convention: Convention
) -> TaskResult:
    """Return the figures of one row, which lists may have read themselves; None stands for no
    attempts.

    `convention`: that of the environment, by which the row was counted.
    """
    row = row or _NONE
    return TaskResult(
        key=row.key,
        coverage=coverage_of_row(row, convention),
        n=row.attempts,
        scored=row.scored,
        successes=row.successes,
        mean=row.return_mean,
        low=row.return_low,
        high=row.return_high,
        bucket=bucket_of(row.attempts, row.env_error, row.rate, thresholds),
    )


def coverage_of_row(row: TaskStatistics, convention: Convention) -> Coverage:
    """Return the coverage of a row, which was counted by this convention."""
    kinds = {kind: getattr(row, kind) for kind in COUNTED_PARTS}
    return coverage_of(kinds_counted(row.attempts, kinds, convention), convention)


def _read(task: Task, by: str, thresholds: Thresholds) -> tuple[TaskResult, ...]:
    convention = Convention.from_code(task.environment.convention)
    rows = TaskStatistics.objects.filter(task=task, by=by).order_by("-attempts", "key")
    return tuple(result_of(row, thresholds, convention) for row in rows[:MAX_KEYS])
