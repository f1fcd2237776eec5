"""Whereabouts: where the episodes of one run were played: in which environments, and in which training steps.

Told are those under way too, so both are counted from the episodes: of a run with very many, from some of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.db import connection
from django.db.models import Count, Max

from environments.models import Environment
from episodes.analytics.scope import filtered, floor_of
from episodes.models import Episode, Run

MOST_COUNTED = 5_000
"""Episodes; to look at so many takes some 5 ms."""

# the subquery goes along the index of training steps, and only as far as it has to
_STEPS = """
    SELECT run_step, COUNT(*), COUNT(DISTINCT task_id) FROM (
        SELECT run_step, task_id FROM episodes_episode WHERE run_id = %s AND run_step IS NOT NULL
        ORDER BY run_step DESC, id DESC LIMIT %s
    ) AS latest GROUP BY run_step ORDER BY run_step DESC LIMIT %s
"""


class InEnvironment(NamedTuple):
    name: str
    episodes: int
    """How many."""
    last: datetime
    """When the newest of them began."""


class InStep(NamedTuple):
    run_step: int
    episodes: int
    """How many."""
    tasks: int
    """That were attempted."""


@dataclass(frozen=True, slots=True)
class Whereabouts:
    environments: Sequence[InEnvironment]
    """Most episodes first."""
    is_bounded: bool
    """Whether environments are those of the newest MOST_COUNTED episodes."""
    steps: Sequence[InStep]
    """Latest first."""


def whereabouts_of(run: Run, most_steps: int) -> Whereabouts:
    """Of the latest training steps `most_steps`, or as many as have MOST_COUNTED episodes together. Four queries."""
    episodes = Episode.objects.filter(run=run)
    floor = floor_of(filtered(episodes, "", episodes), MOST_COUNTED)
    grouped = episodes.filter(pk__gt=floor).order_by().values_list("environment")
    counts = list(grouped.annotate(count=Count("pk"), last=Max("created")).order_by("-count"))
    names = dict(Environment.objects.filter(pk__in=[pk for pk, _, _ in counts]).values_list("pk", "name"))
    environments = [InEnvironment(names[pk], count, last) for pk, count, last in counts]
    return Whereabouts(environments, floor > 0, _steps(run, most_steps))


def _steps(run: Run, most: int) -> list[InStep]:
    with connection.cursor() as cursor:
        cursor.execute(_STEPS, [run.pk, MOST_COUNTED, most])
        steps = [InStep._make(row) for row in cursor.fetchall()]
    is_cut = sum(step.episodes for step in steps) >= MOST_COUNTED and len(steps) > 1
    return steps[:-1] if is_cut else steps  # the last one's episodes are not all among them
