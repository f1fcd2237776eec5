"""Figures of one task by any definition of return and success, counted from its newest episodes, for the task's page.

For the environment's own definition the recorder stores the figures of all attempts (TaskStatistics).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from environments.models import Task
from environments.scoring.buckets import Thresholds, bucket_of
from environments.scoring.definition import Definition
from environments.scoring.task_statistics import MAX_KEYS, Statistics, TaskResult
from episodes.attempts.endings import rows_of
from episodes.attempts.rule import KIND, is_attempt
from episodes.attempts.summary import figures_from, returns_sketch
from episodes.models import Episode

MAX_NEWEST = 10_000


def statistics_at(
    task: Task, definition: Definition, thresholds: Thresholds, revisions: Collection[int] = ()
) -> tuple[Statistics, int | None]:
    """Return the statistics of a task, and the number of episodes read if there may be older ones; otherwise None.

    `revisions`: ids of the revisions whose episodes count; empty: those of all. One query.
    """
    newest = Episode.objects.filter(task=task).order_by("-pk")
    newest = newest.filter(revision__in=revisions) if revisions else newest
    columns = ("status", KIND, "run__name", "model", definition.column)
    rows = rows_of(newest.values_list(*columns)[:MAX_NEWEST])
    attempts = [row[2:] for row in rows if row[0] == "ended" and is_attempt(row[1])]
    runs: dict[str, list[float | None]] = defaultdict(list)
    models: dict[str, list[float | None]] = defaultdict(list)
    for run, model, value in attempts:
        runs[run or ""].append(value)
        models[model].append(value)
    counted = Statistics(
        overall=_result("", [value for *_, value in attempts], definition, thresholds),
        runs=_results_by_name(runs, definition, thresholds),
        models=_results_by_name(models, definition, thresholds),
    )
    return counted, MAX_NEWEST if len(rows) == MAX_NEWEST else None


def _results_by_name(
    returns: Mapping[str, Sequence[float | None]], definition: Definition, thresholds: Thresholds
) -> tuple[TaskResult, ...]:
    """Return the figures of those that have a name, most attempts first, then by name."""
    names = sorted((name for name in returns if name), key=lambda name: (-len(returns[name]), name))
    return tuple(_result(name, returns[name], definition, thresholds) for name in names[:MAX_KEYS])


def _result(key: str, returns: Sequence[float | None], definition: Definition, thresholds: Thresholds) -> TaskResult:
    figures, sketch = figures_from(returns, definition.threshold), returns_sketch(returns)
    rate = figures["successes"] / len(returns) if returns else 0.0
    return TaskResult(
        key=key,
        low=sketch[0][0] if sketch else None,
        high=sketch[-1][0] if sketch else None,
        bucket=bucket_of(len(returns), rate, thresholds),
        **figures,
    )
