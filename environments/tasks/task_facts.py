"""Reads what a task's page shows besides its content: places, tags, statistics, and history."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from django.db import connection
from django.db.models import Count, F, OuterRef, Subquery
from django.db.models.functions import Coalesce

from environments import conf
from environments.display.line_diff import DiffLine, diff
from environments.models import (
    CurationAction,
    Split,
    SplitEntry,
    Task,
    TaskFlag,
    TaskRevision,
    TaskStatistics,
    TaskTag,
    seen_at,
)
from environments.scoring.convention import Convention
from environments.scoring.task_statistics import Statistics, TaskResult, result_of, statistics_of
from environments.tasks.split_indexes import last_served, served_indexes
from environments.tasks.task_places import TaskAtPlace, places_of_tasks

MAX_PLACES = 20


@dataclass(frozen=True, slots=True)
class PlaceOfTask:
    split: Split
    index: int | None
    """The index under which clients get the task; None if hidden, or while the split's counts are
    not ready. The position if no task before it is quarantined."""
    is_hidden: bool
    position: int

    @property
    def name(self) -> str:
        return name_of_place(self.split, self.position, is_hidden=self.is_hidden)

    @property
    def has_other_index(self) -> bool:
        """Return whether agents get the task under another number than its name has."""
        return self.index is not None and self.index != self.position


@dataclass(frozen=True, slots=True)
class TaskFacts:
    places: list[PlaceOfTask]
    """The places that it has now, MAX_PLACES at most."""
    tags: list[str]
    statistics: Statistics

    @property
    def name(self) -> str:
        """What `task_names` returns; empty without a place."""
        places = sorted(self.places, key=lambda place: place.is_hidden)
        return places[0].name if places else ""

    @property
    def open_places(self) -> list[PlaceOfTask]:
        """The places in splits that are not frozen."""
        return [place for place in self.places if place.split.frozen is None]

    @property
    def frozen_places(self) -> list[PlaceOfTask]:
        """The places in frozen splits, which a change of the task does not affect."""
        return [place for place in self.places if place.split.frozen is not None]


def task_facts_of(task: Task, statistics: Statistics | None = None) -> TaskFacts:
    """Read a task's places, tags and statistics, or use `statistics`, by another definition of
    return than the stored one.

    Takes five queries, each along an index, and a few more for each split that has gaps; three
    fewer with `statistics`.
    """
    entries = SplitEntry.objects.filter(seen_at(F("split__version")), task=task)
    entries = entries.annotate(last=last_served()).select_related("split__environment")
    entries = entries.order_by("split__position", "split__name", "position")[:MAX_PLACES]
    places = []
    for split, group in groupby(entries, key=lambda entry: entry.split):
        rows = list(group)
        indexes = served_indexes(split, [row.position for row in rows], rows[0].last)
        places += [
            PlaceOfTask(split, indexes.get(row.position), row.is_hidden, row.position)
            for row in rows
        ]
    return TaskFacts(
        places=places,
        tags=list(task.tags.values_list("name", flat=True)),
        statistics=statistics or statistics_of(task, conf.thresholds()),
    )


def figures_by_task(tasks: Iterable[int]) -> dict[int, TaskResult]:
    """Return task -> result of all attempts at it. One query."""
    ids, thresholds = list(tasks), conf.thresholds()
    rows = TaskStatistics.objects.filter(task__in=ids, by="all").annotate(
        code=F("environment__convention")
    )
    results = dict.fromkeys(ids, result_of(None, thresholds, Convention()))
    for row in rows:
        results[row.task_id] = result_of(row, thresholds, Convention.from_code(row.code))
    return results


def tags_of(tasks: Iterable[int]) -> dict[int, list[str]]:
    """Return the tags of each task in alphabetical order; a task without any is left out."""
    names = dict[int, list[str]]()
    tags = TaskTag.objects.filter(task__in=tasks).order_by("name")
    for task, name in tags.values_list("task_id", "name"):
        names.setdefault(task, []).append(name)
    return names


def task_names(tasks: Sequence[int]) -> dict[int, str]:
    """Return each task's name, `train #12` or `train #12 (quarantined)`: its first place, one that
    agents are served if there is any. A task without a place is `task` and its id.

    A few hundred tasks at most. Two queries.
    """
    names = names_in_splits([(task, None) for task in tasks])
    return {task: name or f"task {task}" for (task, _), name in names.items()}


def names_in_splits(
    pairs: Collection[tuple[int, int | None]],
) -> dict[tuple[int, int | None], str]:
    """Return the name of each task (id) by its first place in a split (id), or in any split if it
    has none there or the split is None; empty without a place.

    A few hundred tasks at most. Two queries.
    """
    places = defaultdict[int, list[TaskAtPlace]](list)
    for row in _in_order(places_of_tasks(sorted({task for task, _ in pairs}))):
        places[row.task].append(row)
    names = dict.fromkeys(pairs, "")
    for task, split in pairs:
        if rows := places[task]:
            row = min(rows, key=lambda row: (row.split.pk != split, row.is_hidden))
            names[task, split] = name_of_place(row.split, row.position, is_hidden=row.is_hidden)
    return names


def name_of_place(split: Split, position: int, *, is_hidden: bool = False) -> str:
    """Return the name of a task by its place: `train #12`. It lasts, because a position stays when
    tasks before it are quarantined and agents' indexes move up."""
    return f"{split.name} #{position}{' (quarantined)' if is_hidden else ''}"


@dataclass(frozen=True, slots=True)
class ServedPlace:
    """A split, and the index under which clients get a task there."""

    split: Split
    index: int


def served_places(tasks: Sequence[int]) -> dict[int, list[ServedPlace]]:
    """Return the places of each task that agents are served, in order; a task without one is left
    out.

    A few hundred tasks at most. Two queries, and a few more for each of their splits that has gaps.
    """
    return _served(_in_order(places_of_tasks(tasks)))


def _in_order(rows: Iterable[TaskAtPlace]) -> list[TaskAtPlace]:
    return sorted(rows, key=lambda row: (row.split.position, row.split.name, row.position))


def _served(rows: Sequence[TaskAtPlace]) -> dict[int, list[ServedPlace]]:
    """Return the places by task that are served. `rows`: in the order of their splits."""
    places = defaultdict[int, list[ServedPlace]](list)
    for split, group in groupby(rows, key=lambda row: row.split):
        members = list(group)
        indexes = served_indexes(split, [row.position for row in members])
        for row in members:
            if row.position in indexes:
                places[row.task].append(ServedPlace(split, indexes[row.position]))
    return dict(places)


MAX_VERSIONS = 50
_VERSIONS = """
    WITH RECURSIVE versions(id) AS (
        SELECT CAST(%s AS bigint)
        UNION
        SELECT CASE WHEN edit.task_id = versions.id THEN edit.successor_id ELSE edit.task_id END
        FROM versions JOIN environments_taskrevision AS edit
        ON (edit.task_id = versions.id OR edit.successor_id = versions.id) AND edit.successor_id IS NOT NULL
    )
    SELECT id FROM versions LIMIT %s
"""


def versions_of(task: Task) -> list[Task]:
    """Return the task with its earlier and later versions, first to last, MAX_VERSIONS at most;
    nothing if there is only one.

    Each has `flagged`, the number of its open flags. Two queries.
    """
    with connection.cursor() as cursor:
        cursor.execute(_VERSIONS, [task.pk, MAX_VERSIONS])
        ids = [pk for (pk,) in cursor.fetchall()]
    if len(ids) == 1:
        return []
    flags = TaskFlag.objects.filter(task=OuterRef("pk"), settled=None).order_by().values("task")
    count = Coalesce(Subquery(flags.annotate(n=Count("pk")).values("n")), 0)
    versions = Task.objects.filter(pk__in=ids).defer("spec", "folded").annotate(flagged=count)
    return list(versions.order_by("pk"))


MAX_CHANGES = 50
_PLACES = re.compile(r', "(places|listed)": (\{[^{}]*\}|\[[^\[\]]*\])(?=\}$)')
"""The places that a task left or got back, which are for undoing that."""


@dataclass(frozen=True, slots=True)
class TaskChange:
    """One revision of a task, as its page shows it."""

    revision: TaskRevision
    lines: list[DiffLine]
    """The difference between before and after."""
    became: Task | None
    """The task that replaced this one, if the revision is an edit of it."""
    came_from: Task | None
    """The task that this one replaced, if the revision is the edit that made it."""
    action: CurationAction | None
    """The action that it is part of."""


@dataclass(frozen=True, slots=True)
class History:
    changes: list[TaskChange]
    """Newest first, MAX_CHANGES at most."""
    older: int | None
    """Id of the oldest revision in `changes` if there are older ones, else None."""

    @property
    def without_contents(self) -> History:
        """The same history without differences, for people who may not see hidden fields."""
        return replace(self, changes=[replace(change, lines=[]) for change in self.changes])

    @property
    def successor(self) -> Task | None:
        """The task that replaced this one last, unless this one was restored since."""
        for change in self.changes:
            if change.became or change.came_from:
                return change.became
        return None


def history_of(task: Task, before: int | None = None) -> History:
    """Read the newest revisions of a task. `before`: only revisions with a smaller id. Three
    queries along indexes."""
    revisions = TaskRevision.objects.select_related("task", "successor").order_by("-id")
    if before is not None:
        revisions = revisions.filter(pk__lt=before)
    # two queries along an index each, where one with OR would read all revisions
    by_id = {row.pk: row for row in revisions.filter(task=task)[: MAX_CHANGES + 1]}
    by_id |= {row.pk: row for row in revisions.filter(successor=task)[: MAX_CHANGES + 1]}
    rows = [by_id[pk] for pk in sorted(by_id, reverse=True)]
    older = rows[MAX_CHANGES - 1].pk if len(rows) > MAX_CHANGES else None
    del rows[MAX_CHANGES:]
    actions = CurationAction.objects.in_bulk({row.change for row in rows}, field_name="token")
    changes = []
    for row in rows:
        is_own = row.task_id == task.pk
        changes.append(
            TaskChange(
                row,
                diff(_PLACES.sub("", row.before), _PLACES.sub("", row.after)),
                became=row.successor if is_own and row.successor_id != task.pk else None,
                came_from=None if is_own else row.task,
                action=actions.get(row.change),
            )
        )
    return History(changes, older)
