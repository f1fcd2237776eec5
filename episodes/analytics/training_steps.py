"""The latest training steps of a run: the figures of their rollouts and the spread within their
groups.

They include running episodes, so they are counted from the episodes, the latest MAX_READ of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean
from typing import NamedTuple

from django.db import connection

from environments.models import Split
from environments.scoring.definition import Definitions
from episodes.analytics.figures import ScopeFigures, judged
from episodes.analytics.groups import Spread, spread_of
from episodes.attempts.endings import rows_of
from episodes.attempts.rule import KIND
from episodes.attempts.summary import returns_counted
from episodes.models import Episode, Run

MAX_READ = 5_000
"""Episodes that are read at most: so many take about 30 ms."""
_FIRST_STEP = (
    "SELECT MIN(run_step) FROM (SELECT DISTINCT run_step FROM ("
    "SELECT run_step FROM episodes_episode WHERE run_id = %s AND run_step IS NOT NULL"
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
    spreads: Sequence[Spread]
    """Spread of each group with two returns or more."""

    @property
    def flat(self) -> int:
        """Return the number of groups whose returns are all equal."""
        return sum(spread.is_flat for spread in self.spreads)

    @property
    def deviation(self) -> float | None:
        """Return the mean of the standard deviations within the groups; None without groups."""
        return fmean([spread.deviation or 0.0 for spread in self.spreads]) if self.spreads else None


class _EpisodeOfStep(NamedTuple):
    run_step: int
    environment: int
    split: int | None
    task: int
    end: int | None
    kind: str
    steps: int
    value: float | None
    failed: int
    refused: int


def steps_of(
    run: Run, definitions: Definitions, most: int, split: Split | None = None
) -> list[TrainingStep]:
    """Return the latest training steps, latest first: `most` of them, or as many as have MAX_READ
    episodes together.

    `split`: of which alone the episodes are; the latest steps are those of all splits. Two queries,
    along the index of training steps.
    """
    with connection.cursor() as cursor:
        cursor.execute(_FIRST_STEP, [run.pk, MAX_READ, most])
        (first,) = cursor.fetchone()
    if first is None:
        return []
    rows = Episode.objects.filter(run=run, run_step__gte=first).order_by("-run_step", "-pk")
    rows = rows if split is None else rows.filter(split=split)
    columns = (
        *(
            "run_step",
            "environment_id",
            "split_id",
            "task_id",
            "end_number",
            KIND,
            "steps_count",
            definitions.value(),
        ),
        *("failed_count", "refused_count"),
    )
    read = [_EpisodeOfStep._make(row) for row in rows_of(rows.values_list(*columns)[:MAX_READ])]
    steps = [(step, list(members)) for step, members in groupby(read, key=lambda row: row.run_step)]
    if len(read) == MAX_READ and len(steps) > 1:
        steps.pop()  # not all episodes of the last one were read
    return [_line(step, members, definitions) for step, members in steps[:most]]


def _line(step: int, rows: Sequence[_EpisodeOfStep], definitions: Definitions) -> TrainingStep:
    ended = [(row.end, row) for row in rows if row.end is not None]
    endings = [
        (
            end,
            row.kind,
            row.steps,
            row.value,
            float(step),
            row.failed,
            row.refused,
            row.split,
            row.environment,
        )
        for end, row in ended
    ]
    groups: dict[tuple[int, int | None, int], list[tuple[str, float | None]]] = defaultdict(list)
    for _, row in ended:
        groups[row.environment, row.split, row.task].append((row.kind, row.value))
    spreads = [
        spread_of(
            value
            for value in returns_counted(members, definitions.of(environment).convention)
            if value is not None
        )
        for (environment, *_), members in groups.items()
        if len(members) > 1
    ]
    summaries = judged([], endings, definitions)
    return TrainingStep(
        run_step=step,
        episodes=len(rows),
        tasks=len({row.task for row in rows}),
        total=ScopeFigures(summaries) if summaries else None,
        spreads=[spread for spread in spreads if spread.scored > 1],
    )
