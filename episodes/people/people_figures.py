"""What each person played, for how long, and with which returns, from the newest
MAX_EPISODES_OF_PEOPLE."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db.models import ExpressionWrapper, F, FloatField
from django.db.models.functions import Coalesce

from environments.models import Environment, Viewer
from environments.scoring.attempt_figures import Figures
from environments.scoring.definition import definition_of
from environments.scoring.returns import RETURNS
from episodes.attempts.endings import Epoch, rows_of
from episodes.attempts.rule import KIND
from episodes.attempts.summary import EndedReturn, figures_from
from episodes.filtering.names import MAX_EPISODES_OF_PEOPLE
from episodes.models import Episode

MAX_PEOPLE = 500
"""People that are returned; those who played last come first."""
_PLAYED = ExpressionWrapper(
    F("duration_seconds") - Coalesce("play__paused_seconds", 0.0), FloatField()
)
"""Seconds from ready to the last answer, without pauses."""
_COLUMNS: tuple[Any, ...] = (
    *("key_label", "environment_id", "status", KIND, _PLAYED, Epoch("created")),
    *("return_sum", "return_last", "return_max", "return_mean"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonPlayed(Figures):
    """Figures of one person's attempts in one environment."""

    environment: Environment
    """Environment whose current definition of return and success the figures use."""


@dataclass(frozen=True, slots=True)
class Person:
    name: str
    """Name in the record, such as @alice; empty if the record has none."""
    episodes: int
    """Number of episodes, without those that were only opened."""
    running: int
    """Number of them that are still running."""
    seconds: float
    """Time played without pauses: from ready to the last answer of ended episodes, since the start
    of running ones."""
    played: Sequence[PersonPlayed]
    """Figures by environment, most attempts first."""
    last: datetime
    """When the newest episode started."""

    @property
    def can_be_filtered(self) -> bool:
        """Return whether filters accept the name; imported records may have other names."""
        return self.name.startswith("@")


@dataclass(frozen=True, slots=True)
class People:
    persons: Sequence[Person]
    is_bounded: bool
    """Whether older episodes or further people are missing."""


def people_of(viewer: Viewer) -> People:
    """Return the people who played, by what they played in environments that exist for the viewer.
    Two queries."""
    episodes = Episode.objects.by_people().in_figures_for(viewer).order_by("-pk")
    rows = rows_of(episodes.values_list(*_COLUMNS)[:MAX_EPISODES_OF_PEOPLE])
    visible = Environment.objects.seen_by(viewer)
    environments = visible.defer("card", "description", "task_schema").in_bulk()
    rows_by_name = defaultdict[str, list[tuple[Any, ...]]](list)
    for name, environment, *row in rows:
        if environment in environments and row[1] != "probe":
            rows_by_name[name].append((environments[environment], *row))
    now = time.time()
    persons = [_person(name, own, now) for name, own in rows_by_name.items()]
    persons.sort(key=lambda person: person.last, reverse=True)
    is_bounded = len(rows) == MAX_EPISODES_OF_PEOPLE or len(persons) > MAX_PEOPLE
    return People(persons[:MAX_PEOPLE], is_bounded)


def _person(name: str, rows: Sequence[tuple[Any, ...]], now: float) -> Person:
    endings = defaultdict[Environment, list[EndedReturn]](list)
    running, seconds = 0, 0.0
    for environment, status, kind, duration, start, *values in rows:
        if status == "ended":
            value = values[RETURNS.index(environment.default_return)]
            endings[environment].append((kind, value))
        running += status == "running"
        seconds += max(0.0, now - start if status == "running" else duration or 0.0)
    figures = [
        PersonPlayed(environment=environment, **figures_from(some, definition_of(environment)))
        for environment, some in endings.items()
    ]
    return Person(
        name=name,
        episodes=len(rows),
        running=running,
        seconds=seconds,
        played=sorted(
            [part for part in figures if part.n], key=lambda part: (-part.n, part.environment.name)
        ),
        last=datetime.fromtimestamp(max(row[4] for row in rows), UTC),
    )
