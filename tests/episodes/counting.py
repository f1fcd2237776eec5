"""Statistics as the database has them, and as plain Python counts them from the episodes."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import Any

import pytest
from django.db.models import Exists, OuterRef

from environments import conf
from environments.models import Task, TaskStatistics
from environments.runtime.records import EpisodeEnded, EpisodeStarted, RunInfo
from environments.scoring.buckets import bucket_of
from episodes.models import Episode
from tests.factories import episode_ended, episode_started

Place = tuple[str, str, str, str]
"""Environment, spec, `by` and `key`."""
StatisticsByPlace = dict[Place, tuple[Any, ...]]
"""Statistics by place, as attempts, scored, successes, total, low, high, rate."""

CAUSES = ("finished", "finished", "finished", "abandoned", "expired", "setup_failed", "env_error", "interrupted")


def stored() -> StatisticsByPlace:
    """Return the stored statistics. Totals compare equal up to rounding, because they are added in another order."""
    rows = TaskStatistics.objects.values_list(
        *("environment__name", "task__spec", "by", "key", "attempts", "scored", "successes"),
        *("return_total", "return_low", "return_high", "rate"),
    )
    return {
        (environment, spec, by, key): (attempts, scored, successes, pytest.approx(total), low, high, rate)
        for environment, spec, by, key, attempts, scored, successes, total, low, high, rate in rows
    }


def misfiled() -> list[str]:
    """Return the specs of tasks that a list by bucket would not find where they belong."""
    thresholds, overall = conf.thresholds(), TaskStatistics.objects.filter(by="all").select_related("task")
    found = [row.task.spec for row in overall if row.bucket != bucket_of(row.attempts, row.rate, thresholds)]
    return [
        *found,
        *Task.objects.exclude(is_unseen=~Exists(overall.filter(task=OuterRef("pk")))).values_list("spec", flat=True),
    ]


def recounted() -> StatisticsByPlace:
    """Return what the episodes say by the definitions in force."""
    returns: dict[Place, list[float | None]] = defaultdict(list)
    thresholds: dict[Place, float] = {}
    for episode in Episode.objects.filter(status="ended", is_probe=False).select_related("task", "environment", "run"):
        kinds = [("all", ""), ("run", episode.run.name if episode.run else ""), ("model", episode.model)]
        for by, key in kinds if episode.cause in ("finished", "abandoned", "expired") else []:
            if key or by == "all":
                place = episode.environment.name, episode.task.spec, by, key
                returns[place].append(getattr(episode, f"return_{episode.environment.default_return}"))
                thresholds[place] = episode.environment.success_threshold
    return {place: _summary(values, thresholds[place]) for place, values in returns.items()}


def _summary(values: list[float | None], threshold: float) -> tuple[Any, ...]:
    scores = [value for value in values if value is not None]
    successes = sum(score > threshold for score in scores)
    low, high = min(scores, default=None), max(scores, default=None)
    return len(values), len(scores), successes, sum(scores), low, high, successes / len(values)


def random_start(random: Random, episode: int) -> EpisodeStarted:
    run = RunInfo(random.choice(["", "r1", "r2"]), None, random.choice(["", "m1", "m2"]))
    return episode_started(
        episode, environment=random.choice(["echo", "math"]), spec_json=str(random.randrange(4)), run=run
    )


def random_end(random: Random, episode: int) -> EpisodeEnded:
    scores: dict[str, Any] = {name: random.choice([None, 0.0, 0.1, 0.5, 1.0, -2.0]) for name in ("last", "max", "mean")}
    return episode_ended(
        episode,
        cause=random.choice(CAUSES),
        steps=random.choice([0, 1, 5]),
        refused=random.choice([0, 0, 1]),
        return_sum=random.choice([0.0, 0.3, 1.0, 1.5]),
        **{f"return_{name}": score for name, score in scores.items()},
    )
