"""The latest training steps of a run: the figures of their rollouts and the spread within their
groups.

They include running episodes, so they are counted from the episodes, MAX_READ of them at most.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, cast

from django.db import connection

from environments.database.storable import MAX_BIGINT
from environments.models import Split
from environments.scoring.definition import Definitions
from episodes.attempts.endings import rows_of
from episodes.attempts.group_states import GroupCount
from episodes.attempts.rule import KIND
from episodes.attempts.summary import EndedReturn
from episodes.figures.scope_figures import EndingRow, ScopeFigures, judged
from episodes.figures.spreads import count_groups
from episodes.models import Episode, Run

MAX_READ = 5_000
"""Episodes that are read at most: so many take about 30 ms."""
_FIRST_STEP = (
    "SELECT MIN(run_step) FROM (SELECT DISTINCT run_step FROM ("
    "SELECT run_step FROM episodes_episode WHERE run_id = %s AND run_step <= %s"
    " ORDER BY run_step DESC, id DESC LIMIT %s) AS newest ORDER BY run_step DESC LIMIT %s) AS "
    "latest"
)
"""The earliest of the latest steps of a run, so that no more episodes are read than are shown."""


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """One training step of a run as a line of a table."""

    run_step: int
    episodes: int
    """Number of episodes, running ones included."""
    tasks: int
    """Number of tasks that were attempted."""
    total: ScopeFigures | None
    """Figures of its endings; None without one."""
    groups: GroupCount
    """Its groups with two returns or more."""


def steps_of(
    run: Run,
    definitions: Definitions,
    most: int,
    split: Split | None = None,
    before: int | None = None,
) -> list[TrainingStep]:
    """Return the latest training steps, latest first: `most` of them, or as many as have MAX_READ
    episodes together.

    `before`: the training step before which they are; None: the latest. `split`: of which alone the
    episodes are; the steps are those of all splits. Two queries, along the index of training steps.
    """
    last = MAX_BIGINT if before is None else before - 1
    with connection.cursor() as cursor:
        cursor.execute(_FIRST_STEP, [run.pk, last, MAX_READ, most])
        (first,) = cursor.fetchone()
    if first is None:
        return []
    rows = Episode.objects.filter(run=run, run_step__range=(first, last)).order_by(
        "-run_step", "-pk"
    )
    rows = rows if split is None else rows.filter(split=split)
    columns = (
        *("end_number", KIND, "steps_count", definitions.value(), "run_step", "failed_count"),
        *("refused_count", "split_id", "environment_id", "task_id"),
    )
    read = rows_of(rows.values_list(*columns)[:MAX_READ])
    steps = [(step, list(members)) for step, members in groupby(read, key=itemgetter(4))]
    if len(read) == MAX_READ and len(steps) > 1:
        steps.pop()  # not all episodes of the last one were read
    return [_line(step, members, definitions) for step, members in steps[:most]]


def _line(step: int, rows: Sequence[tuple[Any, ...]], definitions: Definitions) -> TrainingStep:
    """Return the line of a step's episodes, which are an EndingRow and a task each."""
    endings = [row for row in rows if row[0] is not None]
    groups = defaultdict[tuple[int, ...], list[EndedReturn]](list)
    for _, kind, _, value, *_, split, environment, task in endings:
        groups[environment, split or 0, task].append((kind, value))
    summaries = judged([], [cast(EndingRow, row[:-1]) for row in endings], definitions)
    return TrainingStep(
        run_step=step,
        episodes=len(rows),
        tasks=len({row[-1] for row in rows}),
        total=ScopeFigures(summaries) if summaries else None,
        groups=count_groups(groups, definitions),
    )
