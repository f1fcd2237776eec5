"""Newest: the episodes that run now and those that ended last, as lines of a list."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from django.db.models import F, Max, QuerySet, Sum

from episodes.models import Episode, Step
from episodes.values import finite

MOST_ADDED = 2_000
"""Steps of one running episode whose rewards a page adds up."""
_SHARES = 2048.0
"""More than MOST_ADDED, and a power of two: shares of rewards are not rounded, and add up to no more than the largest
number, beyond which PostgreSQL refuses to add."""


@dataclass(frozen=True, slots=True)
class Playing:
    """An episode as a line of a list. Of a running one the figures stand in its steps, not yet on its row."""

    episode: Episode
    steps: int
    return_so_far: float | None
    """Sum of its rewards; None where there are too many to add up, and where it is hidden."""

    @property
    def is_running(self) -> bool:
        return self.episode.status == "running"


def running(limit: int, hidden: Collection[int] = ()) -> list[Playing]:
    """The newest that run; `hidden`: ids of those whose return is not told. Three queries."""
    episodes = list(_listed(Episode.objects.filter(status="running")).order_by("-pk")[:limit])
    steps = Step.objects.filter(episode__in=[episode.pk for episode in episodes]).order_by()
    last = dict(steps.values_list("episode").annotate(Max("index")))
    few = [pk for pk, index in last.items() if index < MOST_ADDED and pk not in hidden]
    sums = dict(steps.filter(episode__in=few).values_list("episode").annotate(shares=Sum(F("reward") / _SHARES)))
    return [
        Playing(
            episode,
            last.get(episode.pk, -1) + 1,
            None if episode.pk in hidden else _so_far(last.get(episode.pk), sums.get(episode.pk)),
        )
        for episode in episodes
    ]


def ended(limit: int) -> list[Playing]:
    """The newest of those that ended, by their beginning. One query."""
    episodes = _listed(Episode.objects.filter(status="ended")).order_by("-pk")[:limit]
    return [Playing(episode, episode.steps_count, episode.return_sum) for episode in episodes]


def running_count() -> int:
    return Episode.objects.filter(status="running").count()


def _listed(episodes: QuerySet[Episode]) -> QuerySet[Episode]:
    return episodes.select_related("environment", "split", "task", "run").defer(
        "task__spec", "labels", "environment__description", "environment__card", "environment__task_schema"
    )


def _so_far(last: int | None, total: float | None) -> float | None:
    return None if last is not None and last >= MOST_ADDED else finite((total or 0.0) * _SHARES)
