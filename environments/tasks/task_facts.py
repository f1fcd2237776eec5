"""Dossier: what is known of one task beside its content: its places, its tags, what the record says. For its page.

History: what people changed of a task, and the tasks that edits made of it or it of. Read by the task's page.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from django.db.models import F

from environments import conf
from environments.display.json_diff import DiffLine, diff
from environments.models import Split, SplitEntry, Task, TaskRevision, TaskStatistics, seen_at
from environments.scoring.task_statistics import Statistics, TaskResult, result_of, statistics_of
from environments.tasks.split_positions import last_served, served_indexes

MAX_PLACES = 20


@dataclass(frozen=True, slots=True)
class PlaceOfTask:
    split: Split
    index: int | None
    """Under which clients get the task there; None: it is hidden, or too far from others to be counted now."""
    is_hidden: bool


@dataclass(frozen=True, slots=True)
class Dossier:
    places: list[PlaceOfTask]
    """Where it stands now; MAX_PLACES at most."""
    tags: list[str]
    statistics: Statistics

    @property
    def open_places(self) -> list[PlaceOfTask]:
        return [place for place in self.places if place.split.frozen is None]

    @property
    def frozen_places(self) -> list[PlaceOfTask]:
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


def figures_by_task(tasks: Iterable[int]) -> dict[int, TaskResult]:
    """Over all attempts at each. One query."""
    ids, thresholds = list(tasks), conf.thresholds()
    found = {row.task_id: row for row in TaskStatistics.objects.filter(task__in=ids, by="all")}
    return {task: result_of(found.get(task), thresholds) for task in ids}


def _places(task: Task) -> list[PlaceOfTask]:
    entries = SplitEntry.objects.filter(seen_at(F("split__version")), task=task).select_related("split__environment")
    found = entries.annotate(last=last_served()).order_by("split__position", "split__name", "position")[:MAX_PLACES]
    places = []
    for split, group in groupby(found, key=lambda entry: entry.split):
        standing = list(group)
        indexes = served_indexes(split, [entry.position for entry in standing], standing[0].last)
        places += [PlaceOfTask(split, indexes.get(entry.position), entry.is_hidden) for entry in standing]
    return places


MAX_SHOWN = 50


@dataclass(frozen=True, slots=True)
class TaskChange:
    """One revision, as its page shows it."""

    revision: TaskRevision
    lines: list[DiffLine]
    """Before and after, compared."""
    became: Task | None
    """The task that took this one's place, where the revision is an edit of it."""
    came_from: Task | None
    """The task whose place this one took, where the revision is the edit that made it."""


@dataclass(frozen=True, slots=True)
class History:
    changes: list[TaskChange]
    """Newest first, MAX_SHOWN at most."""
    older: int | None
    """Changes before this revision are not among them; None: there are no others."""

    @property
    def relatives(self) -> list[Task]:
        """What edits made of the task, newest first, and what it was made of; each once."""
        later = [change.became for change in self.changes if change.became]
        earlier = [change.came_from for change in self.changes if change.came_from]
        return list({task.pk: task for task in [*later, *earlier]}.values())

    @property
    def successor(self) -> Task | None:
        """What took the task's place last, unless the task has come back since."""
        for change in self.changes:
            if change.became or change.came_from:
                return change.became
        return None


def history_of(task: Task, before: int | None = None) -> History:
    """Two queries, each along an index. `before`: only revisions with a smaller id."""
    revisions = TaskRevision.objects.select_related("task", "successor").order_by("-id")
    if before is not None:
        revisions = revisions.filter(pk__lt=before)
    own = list(revisions.filter(task=task)[: MAX_SHOWN + 1])
    made = list(revisions.filter(successor=task)[: MAX_SHOWN + 1])
    found = sorted({one.pk: one for one in [*own, *made]}.values(), key=lambda one: -one.pk)
    shown = found[:MAX_SHOWN]
    return History([_change(one, task) for one in shown], shown[-1].pk if len(found) > MAX_SHOWN else None)


def _change(revision: TaskRevision, task: Task) -> TaskChange:
    is_own = revision.task_id == task.pk
    return TaskChange(
        revision,
        diff(revision.before, revision.after),
        became=revision.successor if is_own and revision.successor_id != task.pk else None,
        came_from=None if is_own else revision.task,
    )
