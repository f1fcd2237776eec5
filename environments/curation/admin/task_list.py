"""One page of the task list: its rows, its filters as chips, and the links to the pages before and
after.

A page is read along an index from a cursor in the address, without any count or offset. A search
that takes long shows what it has found so far, and a link to continue. Used by
`environments.curation.admin.task`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from urllib.parse import urlencode

from django.db.models import F, QuerySet
from django.db.models.functions import Left

from environments import conf
from environments.curation.actions.tags import tag_names
from environments.curation.admin.sorted_selection import batch_of
from environments.curation.index_walk import Order, WalkCursor
from environments.curation.selection import Selection, SelectionBatch
from environments.curation.task_filter import ANY_STATE, SERVED
from environments.curation.task_states import LABELS, with_states
from environments.display.task_line import MAX_READ_CHARACTERS
from environments.models import (
    Environment,
    Split,
    SplitEntry,
    Task,
    TaskFlag,
    TaskStatistics,
    TaskTag,
    seen_at,
)
from environments.scoring.convention import Convention, Coverage
from environments.scoring.task_buckets import Bucket, bucket_of
from environments.scoring.task_statistics import coverage_of_row
from environments.service import task_line
from environments.tasks.split_indexes import served_indexes
from environments.tasks.task_facts import task_names
from environments.tasks.task_places import places_of

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


@dataclass(slots=True)
class TaskListRow:
    """A task as the list shows it."""

    task: Task
    summary: str
    bucket: Bucket
    statistics: TaskStatistics | None
    """Statistics of all attempts; None without attempts."""
    at: str = ""
    """Where it is in the list, for a review that goes on from it."""
    index: int | None = None
    """Index of the task in the listed split, as agents use it; None: it is not served, or no split
    is listed."""
    place: str = ""
    """Name of the task by its first place, such as `train #12`; empty if it has none, or if a split
    is listed."""
    tags: list[str] = field(default_factory=list)
    places: list[ShownPlace] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)
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


def _rows(batch: SelectionBatch, listed: int | None) -> list[TaskListRow]:
    """Return the batch's tasks with everything that the list shows: seven queries, and some more
    for their indexes."""
    tasks = {task.pk: task for task in _tasks(batch.ids)}
    overall = {
        row.task_id: row for row in TaskStatistics.objects.filter(task__in=batch.ids, by="all")
    }
    tags, places, flags = _tags(batch.ids), _places(batch.ids), _flags(batch.ids)
    indexes, names = _indexes(batch, listed), task_names(batch.ids) if listed is None else {}
    rows = [
        _row(tasks[pk], overall.get(pk), index)
        for pk, index in zip(batch.ids, indexes, strict=True)
        if pk in tasks
    ]
    keys = dict(zip(batch.ids, batch.positions or batch.ids, strict=True))
    for row in rows:
        row.at = str(WalkCursor(keys[row.task.pk], batch.order))
        row.tags, row.places, row.flags = tags[row.task.pk], places[row.task.pk], flags[row.task.pk]
        row.place = name if "#" in (name := names.get(row.task.pk, "")) else ""
    return rows


def _indexes(batch: SelectionBatch, listed: int | None) -> Sequence[int | None]:
    split = None if listed is None else Split.objects.filter(pk=listed).first()
    if split is None:
        return (None,) * len(batch.ids)
    positions = batch.positions if batch.order == "split" else _positions(batch.ids, split)
    found = served_indexes(split, positions)
    return [found.get(position) for position in positions]


def _positions(ids: Sequence[int], split: Split) -> list[int]:
    """Return the position of each task in the split, at its first place; -1 if it has none."""
    first = dict(
        places_of(split, list(ids)).order_by("-position").values_list("task_id", "position")
    )
    return [first.get(task, -1) for task in ids]


def _row(task: Task, overall: TaskStatistics | None, index: int | None) -> TaskListRow:
    environment = task.environment
    line = task_line(environment, task.head)  # type: ignore[attr-defined]  # annotated
    attempts, rate = (overall.attempts, overall.rate) if overall else (0, 0.0)
    return TaskListRow(
        task, line, bucket_of(attempts, rate, conf.thresholds()), overall, index=index
    )


def _tasks(ids: Iterable[int]) -> QuerySet[Any]:
    """Return the tasks with `head`, the beginning of the spec, because a whole spec may be
    megabytes."""
    rows = (
        with_states(Task.objects.filter(pk__in=ids))
        .select_related("environment")
        .annotate(head=Left("spec", MAX_READ_CHARACTERS))
    )
    found: QuerySet[Any] = rows.defer(
        "spec", "folded", "environment__description", "environment__card"
    )
    return found


def _tags(ids: Iterable[int]) -> dict[int, list[str]]:
    found = defaultdict[int, list[str]](list)
    for task, name in (
        TaskTag.objects.filter(task__in=ids).order_by("name").values_list("task", "name")
    ):
        found[task].append(name)
    return found


def _flags(ids: Iterable[int]) -> dict[int, list[str]]:
    found = defaultdict[int, list[str]](list)
    unsettled = TaskFlag.objects.filter(task__in=ids, settled=None).order_by("-pk")
    for task, note in unsettled.values_list("task", Left("note", MAX_FLAG_CHARACTERS)):
        found[task].append(note)
    return found


def _places(ids: Iterable[int]) -> dict[int, list[ShownPlace]]:
    """Return the splits that hold each task at their present versions, each split once."""
    seen = SplitEntry.objects.filter(seen_at(F("split__version")), task__in=ids)
    entries = seen.order_by("split__position", "split")
    places = list(entries.values_list("task", "split", "is_hidden", "split__position").distinct())
    splits = Split.objects.in_bulk({split for _, split, _, _ in places})
    found = defaultdict[int, list[ShownPlace]](list)
    for task, split, is_hidden, _ in places:
        found[task].append(ShownPlace(splits[split], is_hidden))
    return found


# --- heads of the columns -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TaskListHead:
    label: str
    query: str = ""
    """Query string of the list sorted by the column; empty: it cannot be sorted by it."""
    direction: Literal["", "ascending", "descending"] = ""
    """How it is sorted by the column now."""
    style: str = ""
    title: str = ""


_FIGURES = {
    "attempts": ("Attempts", ""),
    "return": ("Return", "Mean over the attempts that have a return"),
    "success": ("Success", "Share of successful attempts with its 95% interval"),
}


def heads(selection: Selection, *, is_one_environment: bool) -> list[TaskListHead]:
    """Return the heads of the columns. A click sorts the greatest figures or the first names first,
    then the reverse, then leaves it at the list's own order."""
    index = "Index of the task in this split, starting at 0; a quarantined task has none"
    by_index = replace(
        _head(selection, "index", "Index", is_figure=True), style="right", title=index
    )
    found = [] if selection.split is None else [by_index]
    found.append(
        replace(
            _head(selection, "task", "Task"), style="wide", title="Sorted by the text of the task"
        )
    )
    found += [] if is_one_environment else [_head(selection, "environment", "Environment")]
    found += [_head(selection, "tags", "Tags"), _head(selection, "splits", "Splits")]
    found += [
        replace(_head(selection, name, label, is_figure=True), style="right", title=title)
        for name, (label, title) in _FIGURES.items()
    ]
    return [*found, _head(selection, "bucket", "Bucket")]


def _head(selection: Selection, name: str, label: str, *, is_figure: bool = False) -> TaskListHead:
    turns = (f"-{name}", name, "") if is_figure else (name, f"-{name}", "")
    at = turns.index(selection.sort) if selection.sort.removeprefix("-") == name else -1
    following = query(replace(selection, sort=turns[(at + 1) % 3])) or "state=served"
    now: Literal["", "ascending", "descending"] = ""
    if at >= 0:
        now = "descending" if selection.sort.startswith("-") else "ascending"
    return TaskListHead(label, following, now)


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
    chosen: str
    """Label of the chosen value; empty: none is chosen."""
    choices: Sequence[TaskListChoice]


def chips(
    selection: Selection, environments: Sequence[Environment], splits: Sequence[Split]
) -> list[TaskListChip]:
    """Return a chip for each filter. `splits`: those to choose from, of one environment if one is
    chosen."""
    names = [(str(row.pk), row.name) for row in environments]
    listed = [(str(row.pk), row.name if selection.environment else str(row)) for row in splits]
    words = {word: word for word in (*tag_names(selection.viewer), selection.tag) if word}
    return [
        _chip(selection, "environment", names, also="split"),  # a split belongs to one environment
        _chip(selection, "split", listed),
        _chip(selection, "tag", list(words.items())),
        _chip(selection, "state", list(LABELS.items()), default=SERVED, of_any=ANY_STATE),
        *(
            _chip(selection, name, list(Selection.parameters()[name].choices.items()))
            for name in ("source", "flags", "bucket")
        ),
    ]


def _chip(
    selection: Selection,
    name: str,
    choices: Sequence[tuple[str, str]],
    *,
    also: str = "",
    default: str = "",
    of_any: str = "",
) -> TaskListChip:
    """Return the chip of the filter `name`.

    `also`: a filter that is removed when this one changes. `default`: the choice in force without
    the parameter. `of_any`: the value of the parameter for any.
    """
    given = selection.values()
    chosen = given.get(name, default)
    others = {key: value for key, value in given.items() if key not in (name, also)}
    offered = [
        TaskListChoice(
            "any", urlencode(others | ({name: of_any} if of_any else {})), chosen == of_any
        )
    ]
    offered += [
        TaskListChoice(label, urlencode(others | {name: value}), value == chosen)
        for value, label in choices
    ]
    label = next((choice.label for choice in offered[1:] if choice.is_chosen), "")
    return TaskListChip(name, label or chosen, offered)
