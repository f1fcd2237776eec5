"""One page of the task list: its rows, its filters as chips, and the links to the pages before and
after.

A page is read along an index from a cursor in the address, without any count or offset. A search
that takes long shows what it has found so far, and a link to continue. Used by
`environments.curation.admin.task`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal
from urllib.parse import urlencode

from django.db.models import F, QuerySet
from django.db.models.functions import Left

from environments import conf
from environments.curation.actions.tags import tag_names
from environments.curation.admin.tasks_by_figure import batch_of
from environments.curation.index_walk import Order, WalkCursor
from environments.curation.selection import Selection, SelectionBatch
from environments.curation.task_filter import ANY_STATE, SORTS
from environments.display.task_line import MAX_READ_CHARACTERS
from environments.models import (
    Environment,
    Split,
    SplitEntry,
    Task,
    TaskFlag,
    TaskStatistics,
    seen_at,
)
from environments.scoring.convention import Convention, Coverage
from environments.scoring.task_buckets import Bucket, bucket_of
from environments.scoring.task_statistics import coverage_of_row
from environments.service import task_line
from environments.tasks.task_facts import names_in_splits, tags_of
from environments.tasks.task_states import LABELS, SERVED, with_states

PAGE_TASKS = 50
MAX_FLAG_CHARACTERS = 300
"""Characters of a flag's note that the list shows."""
MAX_SCAN_SECONDS = 0.045
"""Longest time for finding a page's tasks; with what is read about them a page stays under 100
ms."""


_ORIGINS = {"import": "imported", "edit": "edited", "played": "played"}


@dataclass(frozen=True, slots=True)
class ShownPlace:
    """A split that holds a task."""

    split: Split
    is_hidden: bool

    def __str__(self) -> str:
        return f"{self.split.name} ❄" if self.split.frozen else self.split.name

    @property
    def title(self) -> str:
        return (
            "keeps its place but is not served"
            if self.is_hidden
            else "frozen"
            if self.split.frozen
            else ""
        )


@dataclass(frozen=True, slots=True)
class TaskListRow:
    """A task as the list shows it."""

    task: Task
    summary: str
    bucket: Bucket
    statistics: TaskStatistics | None
    """Statistics of all attempts; None without attempts."""
    at: str
    """Where it is in the list, for a review that goes on from it."""
    place: str
    """Name of the task by its place in the listed split, or in its first: `train #12`; empty
    without a place."""
    tags: list[str]
    places: list[ShownPlace]
    flags: list[str]
    """Notes of open flags, newest first."""

    @property
    def is_quarantined(self) -> bool:
        return self.task.state == "quarantined"

    @property
    def standing(self) -> str:
        """Return the state of the task for people, unless it is served or quarantined; else an
        empty text."""
        standing: str = self.task.standing  # type: ignore[attr-defined]  # annotated
        return "" if standing in ("served", "quarantined") else LABELS[standing]

    @property
    def origin(self) -> str:
        """Return the origin of the task if it is not from a class; else an empty text."""
        return _ORIGINS.get(self.task.source, "")

    @property
    def place_names(self) -> str:
        return ", ".join(place.split.name for place in self.places)

    @property
    def mean(self) -> float | None:
        """Mean return of all scored attempts."""
        return self.statistics.return_mean if self.statistics else None

    @property
    def coverage(self) -> Coverage | None:
        convention = Convention.from_code(self.task.environment.convention)
        return None if self.statistics is None else coverage_of_row(self.statistics, convention)


@dataclass(frozen=True, slots=True)
class TaskListPage:
    rows: Sequence[TaskListRow]
    previous: str
    """Query string of the page before; empty: this is the first page."""
    next: str
    """Query string of the page after; empty: this is the last page."""
    looked_at: int
    """Number of tasks that were tested."""
    order: Order
    is_unfinished: bool
    """Whether time ran out before the page was full; `next` continues from there."""
    sorted_among: int | None = None
    """Number of tasks that were sorted, if more match than can be; else None."""


EMPTY_PAGE = TaskListPage((), "", "", 0, "newest", is_unfinished=False)


def page_of(selection: Selection, cursors: Mapping[str, str]) -> TaskListPage:
    """Return the page that the cursor `after` or `before` names; without one the first page."""
    before = cursors.get("before", "")
    batch = batch_of(
        selection,
        before or cursors.get("after", ""),
        PAGE_TASKS,
        backward=bool(before),
        seconds=MAX_SCAN_SECONDS,
    )
    is_first = not before and not cursors.get("after")
    is_unfinished = len(batch.ids) < PAGE_TASKS and not batch.is_last
    return TaskListPage(
        rows=_rows(batch, selection.split),
        previous="" if is_first else query(selection, before=batch.first),
        next="" if batch.is_last else query(selection, after=batch.last),
        looked_at=batch.seen,
        order=batch.order,
        is_unfinished=is_unfinished,
        sorted_among=batch.sorted_among,
    )


def query(selection: Selection, **cursor: str) -> str:
    """Return the query string of a list."""
    return urlencode(selection.values() | cursor)


def _rows(batch: SelectionBatch, split_id: int | None) -> list[TaskListRow]:
    """Return the batch's tasks with everything that the list shows: nine queries."""
    # the beginning of the spec alone, because a whole one may be megabytes
    tasks: QuerySet[Any] = (
        with_states(Task.objects.filter(pk__in=batch.ids))
        .select_related("environment")
        .annotate(head=Left("spec", MAX_READ_CHARACTERS))
        .defer("spec", "folded", "environment__description", "environment__card")
    )
    by_id = {task.pk: task for task in tasks}
    overall = {
        row.task_id: row for row in TaskStatistics.objects.filter(task__in=batch.ids, by="all")
    }
    tags, places, flags = tags_of(batch.ids), _places(batch.ids), _flags(batch.ids)
    names = names_in_splits([(pk, split_id) for pk in batch.ids])
    thresholds, rows = conf.thresholds(), list[TaskListRow]()
    for pk, key in zip(batch.ids, batch.positions or batch.ids, strict=True):
        if (task := by_id.get(pk)) is None:
            continue
        row = overall.get(pk)
        counts = (row.attempts, row.env_error, row.rate) if row else (0, 0, 0.0)
        rows.append(
            TaskListRow(
                task,
                summary=task_line(task.environment, task.head),
                bucket=bucket_of(*counts, thresholds),
                statistics=row,
                at=str(WalkCursor(key, batch.order)),
                place=names[pk, split_id],
                tags=tags.get(pk, []),
                places=places[pk],
                flags=flags[pk],
            )
        )
    return rows


def _flags(ids: Iterable[int]) -> dict[int, list[str]]:
    notes = defaultdict[int, list[str]](list)
    flags = TaskFlag.objects.filter(task__in=ids, settled=None).order_by("-pk")
    for task, note in flags.values_list("task", Left("note", MAX_FLAG_CHARACTERS)):
        notes[task].append(note)
    return notes


def _places(ids: Iterable[int]) -> dict[int, list[ShownPlace]]:
    """Return the splits that hold each task at their present versions, each split once."""
    rows = SplitEntry.objects.filter(seen_at(F("split__version")), task__in=ids)
    entries = rows.order_by("split__position", "split")
    places = list(entries.values_list("task", "split", "is_hidden", "split__position").distinct())
    splits = Split.objects.in_bulk({split for _, split, _, _ in places})
    places_by_task = defaultdict[int, list[ShownPlace]](list)
    for task, split, is_hidden, _ in places:
        places_by_task[task].append(ShownPlace(splits[split], is_hidden))
    return places_by_task


# --- heads of the columns -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TaskListHead:
    label: str
    query: str
    """Query string of the list sorted by the column; empty: it is not sorted by that."""
    direction: Literal["", "ascending", "descending"]
    """How it is sorted by the column now."""
    style: str
    title: str


_COLUMNS = {
    "task": ("Task", "wide", ""),
    "environment": ("Environment", "", ""),
    "tags": ("Tags", "few", ""),
    "splits": ("Splits", "few", ""),
    "attempts": ("Attempts", "right", ""),
    "return": ("Return", "right", "Mean over the attempts that have a return"),
    "success": ("Success", "right", "Share of successful attempts with its 95% interval"),
    "bucket": ("Bucket", "", ""),
}
"""Name -> label, style and title. Columns of figures are to the right."""


def heads(selection: Selection, *, is_one_environment: bool) -> list[TaskListHead]:
    """Return the heads of the columns. A click on a figure sorts the greatest first, then the
    reverse, then leaves it at the list's own order; buckets from failing on."""
    columns = list[TaskListHead]()
    for name, (label, style, title) in _COLUMNS.items():
        if name == "environment" and is_one_environment:
            continue
        if name not in SORTS:
            columns.append(TaskListHead(label, "", "", style, title))
            continue
        sorts = (f"-{name}", name, "") if style == "right" else (name, f"-{name}", "")
        direction: Literal["", "ascending", "descending"] = ""
        at = -1
        if selection.sort.removeprefix("-") == name:
            at = sorts.index(selection.sort)
            direction = "descending" if selection.sort.startswith("-") else "ascending"
        following = query(replace(selection, sort=sorts[(at + 1) % 3])) or "state=served"
        columns.append(TaskListHead(label, following, direction, style, title))
    return columns


# --- filters as chips -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TaskListChoice:
    """One value of a filter, with the query string of the list that has it."""

    label: str
    query: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class TaskListChip:
    """One filter of the list with all values that it can have."""

    title: str
    value: str
    """Label of the chosen value; empty: none is chosen."""
    choices: Sequence[TaskListChoice]


def chips(
    selection: Selection, environments: Sequence[Environment], splits: Sequence[Split]
) -> list[TaskListChip]:
    """Return a chip for each filter. `splits`: those to choose from, of one environment if one is
    chosen."""
    names = [(str(row.pk), row.name) for row in environments]
    split_names = [(str(row.pk), row.name if selection.environment else str(row)) for row in splits]
    words = {word: word for word in (*tag_names(selection.viewer), selection.tag) if word}
    sources, flags, buckets = (
        list(Selection.parameters()[name].choices.items()) for name in ("source", "flags", "bucket")
    )
    choices_by_filter = {
        "environment": names,
        "split": split_names,
        "tag": list(words.items()),
        "state": list(LABELS.items()),
        "source": sources,
        "flags": flags,
        "bucket": buckets,
    }
    return [_chip(selection, name, choices) for name, choices in choices_by_filter.items()]


def _chip(selection: Selection, name: str, choices: Sequence[tuple[str, str]]) -> TaskListChip:
    """Return the chip of the filter `name`."""
    # without the parameter, a list means what is served, but for chosen tasks
    default, any_value = (SERVED, ANY_STATE) if name == "state" else ("", "")
    if selection.ids:
        default = any_value
    # other filters do not narrow the chosen ones: a choice leaves them for the whole list
    values = {key: value for key, value in selection.values().items() if key != "ids"}
    value_in_force = values.get(name, default)
    # a split belongs to one environment
    without = (name, "split") if name == "environment" else (name,)
    others = {key: value for key, value in values.items() if key not in without}
    without_filter = others | ({name: any_value} if any_value else {})
    options = [TaskListChoice("any", urlencode(without_filter), value_in_force == any_value)]
    options += [
        TaskListChoice(label, urlencode(others | {name: value}), value == value_in_force)
        for value, label in choices
    ]
    label = next((choice.label for choice in options[1:] if choice.is_chosen), value_in_force)
    return TaskListChip(name, label, options)
