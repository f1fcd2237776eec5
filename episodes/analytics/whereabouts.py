"""Whereabouts: where the episodes of one run were played: in which environments, and in which training steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.db.models import Count, Max

from environments.models import Environment
from episodes.analytics.scope import filtered, floor_of
from episodes.models import Episode, Run


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
    steps: Sequence[InStep]
    """Latest first."""


def whereabouts_of(run: Run) -> Whereabouts:
    """Of the newest MOST_ENDINGS of its episodes, those under way included. Three queries, one over the episodes."""
    episodes = Episode.objects.filter(run=run)
    recent = episodes.filter(pk__gt=floor_of(filtered(episodes, "", episodes))).order_by()
    grouped = recent.values_list("environment", "run_step")
    rows = list(grouped.annotate(count=Count("pk"), tasks=Count("task", distinct=True), last=Max("created")))
    counts, tasks, played = Counter[int](), Counter[int](), Counter[int]()
    begun: dict[int, datetime] = {}
    for environment, step, count, different, last in rows:
        played[environment] += count
        begun[environment] = max(begun.get(environment, last), last)
        if step is not None:
            counts[step] += count
            tasks[step] += different  # no task is of two environments
    names = dict(Environment.objects.filter(pk__in=played).values_list("pk", "name"))
    return Whereabouts(
        [InEnvironment(names[pk], count, begun[pk]) for pk, count in played.most_common()],
        [InStep(step, counts[step], tasks[step]) for step in sorted(counts, reverse=True)],
    )
