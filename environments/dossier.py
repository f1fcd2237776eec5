"""Dossier: what is known of one task beside its content: its places, its tags, what the record says. For its page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import F, Q

from environments import conf
from environments.buckets import Bucket, bucket_of
from environments.models import SplitEntry, Task, TaskStatistics

MOST_PLACES = 20
MOST_ROWS = 50
"""Of runs, and of models."""


@dataclass(frozen=True, slots=True)
class Result:
    """What attempts at a task came to."""

    statistics: TaskStatistics | None
    """None: there was no attempt."""
    bucket: Bucket

    @property
    def mean(self) -> float | None:
        """Of the returns of scored attempts."""
        one = self.statistics
        return one.return_total / one.scored if one and one.scored else None

    @property
    def low(self) -> float | None:
        return self.statistics.return_low if self.statistics else None

    @property
    def high(self) -> float | None:
        return self.statistics.return_high if self.statistics else None


@dataclass(frozen=True, slots=True)
class Dossier:
    places: list[SplitEntry]
    """Where it stands now, each with its split; MOST_PLACES at most."""
    tags: list[str]
    overall: Result
    by_run: list[Result]
    """The most attempts first."""
    by_model: list[Result]

    @property
    def open_places(self) -> list[SplitEntry]:
        return [place for place in self.places if place.split.frozen is None]

    @property
    def frozen_places(self) -> list[SplitEntry]:
        """Places of which no change of the task is seen."""
        return [place for place in self.places if place.split.frozen is not None]


def dossier_of(task: Task) -> Dossier:
    """In five queries, each along an index."""
    runs, models = (_rows(task, by) for by in ("run", "model"))
    return Dossier(
        places=list(_places(task)),
        tags=list(task.tags.values_list("name", flat=True)),
        overall=results_of([task.pk])[task.pk],
        by_run=runs,
        by_model=models,
    )


def results_of(tasks: Iterable[int]) -> dict[int, Result]:
    """By task, over all its attempts. One query."""
    ids = list(tasks)
    found = {one.task_id: one for one in TaskStatistics.objects.filter(task__in=ids, by="all")}
    return {task: _result(found.get(task)) for task in ids}


def _places(task: Task) -> Iterable[SplitEntry]:
    now = F("split__version")
    seen = Q(since__lte=now) & (Q(until=None) | Q(until__gt=now))
    places = SplitEntry.objects.filter(seen, task=task).select_related("split__environment")
    return places.order_by("split__position", "split__name", "position")[:MOST_PLACES]


def _rows(task: Task, by: str) -> list[Result]:
    rows = TaskStatistics.objects.filter(task=task, by=by).order_by("-attempts", "key")
    return [_result(row) for row in rows[:MOST_ROWS]]


def _result(row: TaskStatistics | None) -> Result:
    return Result(row, bucket_of(row.attempts if row else 0, row.rate if row else 0.0, conf.thresholds()))
