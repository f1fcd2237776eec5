"""Figures of one task by any definition of return and success, counted from its newest episodes,
for the task's page.

For the environment's own definition the recorder stores the figures of all attempts
(TaskStatistics).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from environments.models import Task
from environments.scoring.definition import Definition
from environments.scoring.task_buckets import Thresholds, bucket_of
from environments.scoring.task_statistics import MAX_KEYS, Statistics, TaskResult
from episodes.attempts.endings import rows_of
from episodes.attempts.rule import KIND, NO_ROLLOUTS
from episodes.attempts.summary import EndedReturn, figures_from, returns_counted, returns_sketch
from episodes.models import Episode

MAX_NEWEST = 10_000


def statistics_at(
    task: Task, definition: Definition, thresholds: Thresholds, revisions: Collection[int] = ()
) -> tuple[Statistics, int | None]:
    """Return the statistics of a task, and the number of episodes read if there may be older ones;
    otherwise None.

    People are left out, as in TaskStatistics.

    `revisions`: ids of the revisions whose episodes count; empty: those of all. One query.
    """
    newest = Episode.objects.filter(task=task).exclude(player="human").order_by("-pk")
    newest = newest.filter(revision__in=revisions) if revisions else newest
    columns = ("status", KIND, "run__name", "model", definition.column)
    rows = rows_of(newest.values_list(*columns)[:MAX_NEWEST])
    rollouts = [row[1:] for row in rows if row[0] == "ended" and row[1] not in NO_ROLLOUTS]
    runs, models = (defaultdict[str, list[EndedReturn]](list) for _ in range(2))
    for kind, run, model, value in rollouts:
        runs[run or ""].append((kind, value))
        models[model].append((kind, value))

    def result(key: str, endings: Sequence[EndedReturn]) -> TaskResult:
        returns = returns_counted(endings, definition.convention)
        figures, sketch = figures_from(endings, definition), returns_sketch(returns)
        rate = figures["successes"] / len(returns) if returns else 0.0
        return TaskResult(
            key=key,
            low=sketch[0][0] if sketch else None,
            high=sketch[-1][0] if sketch else None,
            bucket=bucket_of(len(returns), rate, thresholds),
            **figures,
        )

    def results(endings_by_name: Mapping[str, Sequence[EndedReturn]]) -> tuple[TaskResult, ...]:
        """Return the figures of names with an attempt, most attempts first, then by name."""
        parts = [result(name, endings) for name, endings in endings_by_name.items() if name]
        parts = [part for part in parts if part.n]
        return tuple(sorted(parts, key=lambda part: (-part.n, part.key))[:MAX_KEYS])

    overall = result("", [(kind, value) for kind, *_, value in rollouts])
    statistics = Statistics(overall=overall, runs=results(runs), models=results(models))
    return statistics, MAX_NEWEST if len(rows) == MAX_NEWEST else None
