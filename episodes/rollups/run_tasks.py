"""The part that makes RunTask rows: returns of runs by task. Each batch adds to the rows.

The comparison of runs reads episodes instead, because it needs successes, lengths and training
steps, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import connection

from environments.database.bulk_writer import BulkWriter, Values
from environments.scoring.convention import NUMBERLESS_KINDS
from environments.scoring.returns import RETURNS
from episodes.attempts.endings import Ending, bounded
from episodes.attempts.rule import NO_ROLLOUTS, OWN_KINDS
from episodes.models import RunTask
from episodes.rollups.rollup_part import NO_LIMIT, delete_some

KEY = ("run_id", "task_id", "split_id", "kind")
COUNTS = (
    "attempts",
    *(f"scored_{name}" for name in RETURNS),
    *(f"total_{name}" for name in RETURNS),
)

Counts = list[Any]
"""Values in the order of COUNTS."""


class RunTasksPart:
    name = "run_tasks"
    most_endings = 1000
    most_steps = NO_LIMIT

    def gather(self, endings: Sequence[Ending]) -> list[Values]:
        rows: dict[tuple[int, int, int, str], Counts] = {}
        for ending in endings:
            if ending.run is not None and ending.kind not in NO_ROLLOUTS:
                kind = ending.kind
                if kind in OWN_KINDS:
                    kind = "_nan" if kind in NUMBERLESS_KINDS else ""
                key = ending.run, ending.task, ending.split or 0, kind
                row = rows.setdefault(key, [0] * 5 + [0.0] * 4)
                row[0] += 1
                for place, value in enumerate(ending.returns, 1):
                    if value is not None:
                        row[place] += 1
                        row[place + len(RETURNS)] += bounded(value)
        return [(*key, *row) for key, row in sorted(rows.items())]

    def write(self, rows: list[Values]) -> None:
        BulkWriter(connection).add(RunTask, KEY, COUNTS, rows)

    def forget(self) -> None:
        pass

    def remove(self, endings: Sequence[Ending]) -> None:
        BulkWriter(connection).subtract(RunTask, KEY, COUNTS, rows := self.gather(endings))
        RunTask.objects.filter(run_id__in={row[0] for row in rows}, attempts=0).delete()

    def empty(self) -> bool:
        return delete_some(RunTask)
