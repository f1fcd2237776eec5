"""Newest: the episodes that run now and those that ended last, and how each environment's newest went."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Max, QuerySet, Sum

from environments.models import Environment
from episodes.models import Episode, Step
from episodes.statistics import FAILURES

MOST_ADDED = 2_000
"""Steps of one running episode whose rewards a page adds up."""
READ_ENDINGS = 400
"""Of an environment, the newest, of which its attempts make its figures."""
POINTS = 40


@dataclass(frozen=True, slots=True)
class Playing:
    """An episode as a line of a list. Of a running one the figures stand in its steps, not yet on its row."""

    episode: Episode
    steps: int
    return_so_far: float | None
    """Sum of its rewards; None where there are too many to add up."""

    @property
    def is_running(self) -> bool:
        return self.episode.status == "running"


def running(limit: int) -> list[Playing]:
    """The newest that run. Three queries."""
    episodes = list(_listed(Episode.objects.filter(status="running")).order_by("-pk")[:limit])
    steps = Step.objects.filter(episode__in=[episode.pk for episode in episodes]).order_by()
    last = dict(steps.values_list("episode").annotate(Max("index")))
    few = [pk for pk, index in last.items() if index < MOST_ADDED]
    sums = dict(steps.filter(episode__in=few).values_list("episode").annotate(Sum("reward")))
    return [
        Playing(episode, last.get(episode.pk, -1) + 1, _so_far(last.get(episode.pk), sums.get(episode.pk)))
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
    return None if last is not None and last >= MOST_ADDED else total or 0.0


@dataclass(frozen=True, slots=True)
class Record:
    """How an environment's newest attempts went, by its definition of return and success."""

    attempts: int
    scored: int
    """Attempts that have a return."""
    mean: float | None
    error: float | None
    """Standard error of the mean; None of fewer than two."""
    successes: int
    points: Sequence[float]
    """Mean returns of stretches of them, oldest first; POINTS at most."""

    @property
    def rate(self) -> float:
        """Of success; 0 without attempts."""
        return self.successes / self.attempts if self.attempts else 0.0


def record_of(environment: Environment) -> Record:
    """Over its newest READ_ENDINGS endings. One query along an index."""
    name = f"return_{environment.default_return}"
    newest = Episode.objects.filter(environment=environment.pk, status="ended").order_by("-end_number")
    rows = newest.values_list("cause", "is_probe", name)[:READ_ENDINGS]
    attempts = [value for cause, is_probe, value in rows if not is_probe and cause not in FAILURES][::-1]
    scored = [value for value in attempts if value is not None]
    return Record(
        attempts=len(attempts),
        scored=len(scored),
        mean=_mean(scored),
        error=_error(scored),
        successes=sum(value > environment.success_threshold for value in scored),
        points=_points(scored),
    )


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(value / len(values) for value in values) if values else None


def _error(values: Sequence[float]) -> float | None:
    mean = _mean(values)
    if mean is None or len(values) < 2:
        return None
    spread = math.hypot(*(value - mean for value in values))
    return spread / math.sqrt(len(values) - 1) / math.sqrt(len(values))


def _points(values: Sequence[float]) -> list[float]:
    size = math.ceil(len(values) / POINTS) or 1
    means = (_mean(values[start : start + size]) for start in range(0, len(values), size))
    return [mean for mean in means if mean is not None]
