"""Dossier: what is known of one task beside its content: its places, its tags, what the record says. For its page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from django.db.models import F

from environments import conf
from environments.curation.indexes import last_served, served_indexes
from environments.models import Split, SplitEntry, Task, TaskStatistics, seen_at
from environments.statistics import Figures, Statistics, figures_of, statistics_of

MOST_PLACES = 20


@dataclass(frozen=True, slots=True)
class Place:
    split: Split
    index: int | None
    """Under which clients get the task there; None: it is hidden, or too far from others to be counted now."""
    is_hidden: bool


@dataclass(frozen=True, slots=True)
class Dossier:
    places: list[Place]
    """Where it stands now; MOST_PLACES at most."""
    tags: list[str]
    statistics: Statistics

    @property
    def open_places(self) -> list[Place]:
        return [place for place in self.places if place.split.frozen is None]

    @property
    def frozen_places(self) -> list[Place]:
        """Places of which no change of the task is seen."""
        return [place for place in self.places if place.split.frozen is not None]


def dossier_of(task: Task, statistics: Statistics | None = None) -> Dossier:
    """In five queries, each along an index, and some more for each split that has gaps; three less where `statistics`
    are given, such as those by another definition than is kept."""
    return Dossier(
        places=_places(task),
        tags=list(task.tags.values_list("name", flat=True)),
        statistics=statistics or statistics_of(task, conf.thresholds()),
    )


def figures_by_task(tasks: Iterable[int]) -> dict[int, Figures]:
    """Over all attempts at each. One query."""
    ids, thresholds = list(tasks), conf.thresholds()
    found = {row.task_id: row for row in TaskStatistics.objects.filter(task__in=ids, by="all")}
    return {task: figures_of(found.get(task), thresholds) for task in ids}


def _places(task: Task) -> list[Place]:
    entries = SplitEntry.objects.filter(seen_at(F("split__version")), task=task).select_related("split__environment")
    found = entries.annotate(last=last_served()).order_by("split__position", "split__name", "position")[:MOST_PLACES]
    places = []
    for split, group in groupby(found, key=lambda entry: entry.split):
        standing = list(group)
        indexes = served_indexes(split, [entry.position for entry in standing], standing[0].last)
        places += [Place(split, indexes.get(entry.position), entry.is_hidden) for entry in standing]
    return places
