"""Attempts: what was reached at one task by any definition, counted from its newest episodes. For the task's page.

By the environment's own definition the recorder keeps the same figures of all of them (`environments/scoring/task_statistics.py`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from environments.models import Task
from environments.scoring.buckets import Thresholds, bucket_of, interval
from environments.scoring.definition import Definition
from environments.scoring.task_statistics import MAX_KEYS, Figures, Statistics
from episodes.attempts.endings import bounded, rows_of
from episodes.attempts.rule import KIND, is_attempt
from episodes.models import Episode

MAX_NEWEST = 10_000


def statistics_at(task: Task, definition: Definition, thresholds: Thresholds) -> tuple[Statistics, int | None]:
    """With how many episodes were read, where there may be older ones; None: all of them. One query."""
    newest = Episode.objects.filter(task=task).order_by("-pk")
    columns = ("status", KIND, "run__name", "model", definition.column)
    rows = rows_of(newest.values_list(*columns)[:MAX_NEWEST])
    attempts = [row[2:] for row in rows if row[0] == "ended" and is_attempt(row[1])]
    runs: dict[str, list[float | None]] = defaultdict(list)
    models: dict[str, list[float | None]] = defaultdict(list)
    for run, model, value in attempts:
        runs[run or ""].append(value)
        models[model].append(value)
    counted = Statistics(
        overall=_figures("", [value for *_, value in attempts], definition, thresholds),
        runs=_named(runs, definition, thresholds),
        models=_named(models, definition, thresholds),
    )
    return counted, MAX_NEWEST if len(rows) == MAX_NEWEST else None


def _named(
    returns: Mapping[str, Sequence[float | None]], definition: Definition, thresholds: Thresholds
) -> tuple[Figures, ...]:
    """Without those that have no name; in the order of those that are kept."""
    names = sorted((name for name in returns if name), key=lambda name: (-len(returns[name]), name))
    return tuple(_figures(name, returns[name], definition, thresholds) for name in names[:MAX_KEYS])


def _figures(key: str, returns: Sequence[float | None], definition: Definition, thresholds: Thresholds) -> Figures:
    values = [bounded(value) for value in returns if value is not None]
    successes = sum(value > definition.threshold for value in values)
    rate = successes / len(returns) if returns else 0.0
    return Figures(
        key=key,
        attempts=len(returns),
        scored=len(values),
        successes=successes,
        mean=math.fsum(values) / len(values) if values else None,
        low=min(values, default=None),
        high=max(values, default=None),
        rate=rate,
        interval=interval(successes, len(returns)),
        bucket=bucket_of(len(returns), rate, thresholds),
    )
