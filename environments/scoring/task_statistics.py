"""What the record says of one task, as pages show it: over all attempts, by run and by model.

Read from TaskStatistics, which the recorder keeps; thresholds of the buckets are given by the caller (`conf.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from environments.models import Task, TaskStatistics
from environments.scoring.buckets import Bucket, Interval, Thresholds, bucket_of, interval

MAX_KEYS = 100
"""Runs or models of a task that are read, those with most attempts first."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What a number of attempts at one task came to."""

    key: str
    """Name of the run or model; empty over all."""
    attempts: int
    scored: int
    """Attempts that have a return."""
    successes: int
    mean: float | None
    """Mean of the returns; None without any, like low and high."""
    low: float | None
    high: float | None
    rate: float
    """Successes by attempts, 0 to 1; 0 without attempts."""
    interval: Interval
    """95 % interval of the rate."""
    bucket: Bucket


@dataclass(frozen=True, slots=True)
class Statistics:
    overall: Figures
    runs: tuple[Figures, ...]
    """Most attempts first, then by name; MAX_KEYS at most. So are `models`."""
    models: tuple[Figures, ...]


_NONE = TaskStatistics(by="all", key="", attempts=0, scored=0, successes=0, return_total=0.0, rate=0.0)


def statistics_of(task: Task, thresholds: Thresholds) -> Statistics:
    """Figures over all attempts, and by run and by model. Three queries."""
    return Statistics(
        overall=next(iter(_read(task, "all", thresholds)), figures_of(None, thresholds)),
        runs=_read(task, "run", thresholds),
        models=_read(task, "model", thresholds),
    )


def figures_of(row: TaskStatistics | None, thresholds: Thresholds) -> Figures:
    """Figures of one row, also for lists that have read the rows themselves; None: no attempts."""
    row = row or _NONE
    return Figures(
        key=row.key,
        attempts=row.attempts,
        scored=row.scored,
        successes=row.successes,
        mean=row.return_total / row.scored if row.scored else None,
        low=row.return_low,
        high=row.return_high,
        rate=row.rate,
        interval=interval(row.successes, row.attempts),
        bucket=bucket_of(row.attempts, row.rate, thresholds),
    )


def _read(task: Task, by: str, thresholds: Thresholds) -> tuple[Figures, ...]:
    rows = TaskStatistics.objects.filter(task=task, by=by).order_by("-attempts", "key")
    return tuple(figures_of(row, thresholds) for row in rows[:MAX_KEYS])
