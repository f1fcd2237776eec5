"""Statistics as the database has them, and as plain Python counts them from the episodes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from django.db.models import Exists, OuterRef, Q

from environments import conf
from environments.models import Environment, Task, TaskStatistics
from environments.runtime.records import EpisodeEnded, EpisodeStarted, RunInfo
from environments.scoring.task_buckets import bucket_of
from episodes.models import Episode
from tests.factories import episode_ended, episode_started

Place = tuple[str, str, str, str]
"""Environment, spec, `by` and `key`."""
StatisticsByPlace = dict[Place, tuple[Any, ...]]
"""Statistics by place, as attempts, scored, successes, total, low, high, rate; last the rollouts by
kind, if any."""
KINDS = ("no_call", "expired", "interrupted", "env_error")

CAUSES = (
    "finished",
    "finished",
    "finished",
    "abandoned",
    "expired",
    "setup_failed",
    "env_error",
    "interrupted",
)


def stored() -> StatisticsByPlace:
    """Return the stored statistics. Totals compare equal up to rounding, because they are added in
    another order."""
    rows = TaskStatistics.objects.values_list(
        *("environment__name", "task__spec", "by", "key", "attempts", "scored", "successes"),
        *("return_total", "return_low", "return_high", "rate", *KINDS),
    )
    return {
        (environment, spec, by, key): (
            attempts,
            scored,
            successes,
            pytest.approx(total),
            low,
            high,
            rate,
            *_some(kinds),
        )
        for environment, spec, by, key, attempts, scored, successes, total, low, high, rate, *kinds in rows
    }


def _some(kinds: Sequence[int]) -> list[dict[str, int]]:
    """Return the rollouts by kind, or nothing if there are none."""
    found = {kind: count for kind, count in zip(KINDS, kinds, strict=True) if count}
    return [found] if found else []


def misfiled() -> list[str]:
    """Return the specs of tasks that a list by bucket would not find where they belong."""
    thresholds, overall = (
        conf.thresholds(),
        TaskStatistics.objects.filter(by="all").select_related("task"),
    )
    found = [
        row.task.spec
        for row in overall
        if row.bucket != bucket_of(row.attempts, row.env_error, row.rate, thresholds)
    ]
    results = overall.filter(Q(attempts__gt=0) | Q(env_error__gt=0), task=OuterRef("pk"))
    return [
        *found,
        *Task.objects.exclude(is_unseen=~Exists(results)).values_list("spec", flat=True),
    ]


def recounted() -> StatisticsByPlace:
    """Return what the episodes say by the definitions and conventions in force."""
    endings: dict[Place, list[tuple[str, float | None]]] = defaultdict(list)
    environments: dict[Place, Environment] = {}
    for episode in Episode.objects.filter(status="ended", is_probe=False).select_related(
        "task", "environment", "run"
    ):
        for by, key in [
            ("all", ""),
            ("run", episode.run.name if episode.run else ""),
            ("model", episode.model),
        ]:
            if key or by == "all":
                place = episode.environment.name, episode.task.spec, by, key
                value = getattr(episode, f"return_{episode.environment.default_return}")
                endings[place].append((episode.cause, value))
                environments[place] = episode.environment
    return {place: _summary(found, environments[place]) for place, found in endings.items()}


def _summary(endings: list[tuple[str, float | None]], environment: Environment) -> tuple[Any, ...]:
    treatments = dict(zip(KINDS, environment.convention, strict=True))
    values, kinds = list[float | None](), Counter[str]()
    for cause, value in endings:
        kind = {"setup_failed": "env_error"}.get(cause, cause)
        treatment = treatments.get(kind, "k")
        kinds[kind] += 1
        if treatment != "o":
            values.append(0.0 if treatment == "z" else value)
    scores = [value for value in values if value is not None]
    successes = sum(score > environment.success_threshold for score in scores)
    low, high = min(scores, default=None), max(scores, default=None)
    rate = successes / len(values) if values else 0.0
    return (
        len(values),
        len(scores),
        successes,
        sum(scores),
        low,
        high,
        rate,
        *_some([kinds[kind] for kind in KINDS]),
    )


def random_start(random: Random, episode: int) -> EpisodeStarted:
    run = RunInfo(random.choice(["", "r1", "r2"]), None, random.choice(["", "m1", "m2"]))
    return episode_started(
        episode,
        environment=random.choice(["echo", "math"]),
        spec_json=str(random.randrange(4)),
        run=run,
    )


def random_end(random: Random, episode: int) -> EpisodeEnded:
    scores: dict[str, Any] = {
        name: random.choice([None, 0.0, 0.1, 0.5, 1.0, -2.0]) for name in ("last", "max", "mean")
    }
    return episode_ended(
        episode,
        cause=random.choice(CAUSES),
        is_named=random.choice([True, False]),
        steps=random.choice([0, 1, 5]),
        refused=random.choice([0, 0, 1]),
        return_sum=random.choice([0.0, 0.3, 1.0, 1.5]),
        **{f"return_{name}": score for name, score in scores.items()},
    )
