"""The tasks of a selection sorted by a figure of their attempts, in pages.

No index holds such an order, because every attempt would have to write it. So at most MAX_SORTED
tasks are read and sorted. Where the buckets follow each other in the order, they are read one after
the other, so that the first pages are right in a larger selection, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.db.models import F, FloatField
from django.db.models.functions import Cast

from environments.curation.index_walk import WalkCursor, clock
from environments.curation.selection import Selection, SelectionBatch
from environments.filtering.parameters import BadFilter
from environments.models import TaskStatistics
from environments.tasks.task_places import batched

MAX_SORTED = 10_000
MAX_SORT_SECONDS = 0.5
"""Longest time for finding the tasks to sort."""
_CHUNK = 2000


def check_cursor(selection: Selection, name: str, text: str) -> None:
    """Raises: BadRequest if a parameter names no place of the list. An empty one is none."""
    in_place = {"split", "newest"} if selection.split is not None else {"newest"}
    if text and WalkCursor.parse(text).order not in ({"sorted"} if selection.sort else in_place):
        raise BadFilter(
            name, text, "it has to be a place in this list, as its links to other pages have it"
        )


def batch_of(
    selection: Selection,
    after: str = "",
    limit: int = 50,
    *,
    backward: bool = False,
    seconds: float | None = None,
) -> SelectionBatch:
    """Return the next `limit` tasks of the selection after the cursor, in the order that it asks
    for.

    `seconds` limits the search as in `Selection.batch`, unless the tasks are sorted.
    """
    if not selection.sort:
        return selection.batch(after, limit, backward=backward, seconds=seconds)
    tasks, is_whole = _sorted(selection)
    cursor = WalkCursor.parse(after)
    at = cursor.key if cursor.order == "sorted" and cursor.key is not None else -1
    start, stop = (max(0, at - limit), max(0, at)) if backward else (at + 1, at + 1 + limit)
    ids = tuple(tasks[start:stop])
    first, last = (str(WalkCursor(rank, "sorted")) for rank in (start, start + len(ids) - 1))
    is_last = start == 0 if backward else stop >= len(tasks)
    return SelectionBatch(
        ids,
        "sorted",
        tuple(range(start, start + len(ids))),
        first,
        last,
        is_last,
        len(tasks),
        sorted_among=None if is_whole else len(tasks),
    )


def _sorted(selection: Selection) -> tuple[list[int], bool]:
    """Return the ids of at most MAX_SORTED tasks in order, and whether these are all."""
    column, is_descending = selection.sort.removeprefix("-"), selection.sort.startswith("-")
    until, is_whole = clock() + MAX_SORT_SECONDS, True
    ids = list[int]()
    for group in _groups(replace(selection, sort=""), column, is_descending=is_descending):
        tasks = list[int]()
        for part in group:
            limit, seconds = MAX_SORTED - len(ids) - len(tasks), until - clock()
            if limit <= 0 or seconds <= 0:
                is_whole = False
                break
            batch = part.batch(limit=limit, seconds=seconds)
            is_whole &= batch.is_last
            tasks += batch.ids
        figures = _figures(column, tasks)
        with_figures = [task for task in tasks if task in figures]
        ids += sorted(with_figures, key=figures.__getitem__, reverse=is_descending)
        ids += [task for task in tasks if task not in figures]
    return list(dict.fromkeys(ids)), is_whole


def _groups(
    selection: Selection, column: str, *, is_descending: bool
) -> Sequence[Sequence[Selection]]:
    """Return selections that make up the selection, in groups that follow each other; each group
    has to be sorted."""
    if selection.bucket or selection.ids:
        return [[selection]]
    names = ("saturated", "learnable", "hopeless")[:: 1 if is_descending else -1]
    buckets = [replace(selection, bucket=name) for name in names]
    unseen, failing = (replace(selection, bucket=name) for name in ("unseen", "failing"))
    if column in ("attempts", "return"):
        return [[*buckets, failing], [unseen]]
    groups = [[part] for part in buckets]
    # by success they have no place of their own, as few of their rollouts say anything
    at = 0 if column == "bucket" and not is_descending else len(groups)
    return [*groups[:at], [failing], *groups[at:], [unseen]]


_FIGURES: dict[str, Any] = {
    "attempts": F("attempts"),
    "return": F("return_total") / Cast("scored", FloatField()),
    "success": F("rate"),
}


def _figures(column: str, ids: Sequence[int]) -> dict[int, float]:
    """Return what tasks are sorted by within a group; a task without it comes last."""
    figures: dict[int, float] = {}
    for chunk in batched(ids, _CHUNK) if column in _FIGURES else ():
        rows = TaskStatistics.objects.filter(task__in=chunk, by="all", attempts__gt=0)
        rows = rows.filter(scored__gt=0) if column == "return" else rows
        figures |= rows.annotate(figure=_FIGURES[column]).values_list("task_id", "figure")
    return figures
