"""The places of tasks in splits as they are now, including hidden places. Read by curation and by
pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, TypeVar

from django.db.models import F, QuerySet

from environments.database.json_rows import among
from environments.models import Split, SplitEntry, seen_at

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TaskAtPlace:
    """One place of a task: the split and its position there."""

    task: int
    split: Split
    position: int
    is_hidden: bool


@dataclass(frozen=True, slots=True)
class SplitPlace:
    """One place of a split. `source_hash` is the hash of the task that the class lists there, or
    empty."""

    task: int
    source_hash: str = ""


@dataclass(frozen=True, slots=True)
class FormerPlace:
    """A place that a task had in a split."""

    position: int
    """-1: it is not known any more."""
    task: int
    source_hash: str = ""


class StoredPlace(NamedTuple):
    """The columns of a place that a change of its split needs. A model instance takes several times
    the CPU."""

    pk: int
    position: int
    task_id: int
    source_hash: str
    is_hidden: bool
    since: int


def stored_places(rows: QuerySet[SplitEntry]) -> list[StoredPlace]:
    """Return the rows of a queryset."""
    return [StoredPlace._make(row) for row in rows.values_list(*StoredPlace._fields)]


def places(split: int, environment: int | None = None) -> QuerySet[SplitEntry]:
    """Return all places of a split, or none if the split belongs to another environment."""
    return places_of(listed(split, environment))


def listed(split: int, environment: int | None = None) -> Split | None:
    """Return the split if it belongs to the environment, with the columns that `places_of`
    needs."""
    splits = Split.objects.filter(pk=split)
    if environment is not None:
        splits = splits.filter(environment=environment)
    return splits.only("pk", "version", "size").order_by().first()


def places_of(split: Split | None, tasks: Sequence[int] | None = None) -> QuerySet[SplitEntry]:
    """Return all places of a split, or only those of `tasks`, a few hundred at most."""
    if split is None:
        return SplitEntry.objects.none()
    # The version is a number: compared with a column of another table, it would keep the index from
    # being used.
    entries = SplitEntry.objects.filter(seen_at(split.version))
    if tasks is None:
        return entries.filter(split=split.pk)
    # `of` hides the column from SQLite's planner, which would otherwise scan the whole split to
    # find a few tasks.
    return entries.alias(of=F("split") + 0).filter(among("task_id", tasks), of=split.pk)


def first_positions(split: Split, tasks: Sequence[int]) -> dict[int, int]:
    """Return the first position of each of some tasks that are in the split, a few hundred at
    most."""
    rows = places_of(split, tasks).order_by("-position")
    return dict(rows.values_list("task_id", "position"))


def places_of_tasks(tasks: Sequence[int]) -> list[TaskAtPlace]:
    """Return all places of some tasks, a few hundred at most.

    The query filters by task alone, so that it uses the index of tasks.
    """
    entries = SplitEntry.objects.filter(among("task_id", tasks)).order_by()
    columns = ("task_id", "split_id", "position", "is_hidden", "since", "until")
    rows = list(entries.values_list(*columns))
    splits = Split.objects.in_bulk({split for _, split, *_ in rows})
    return [
        TaskAtPlace(task, splits[split], position, is_hidden)
        for task, split, position, is_hidden, since, until in rows
        if split in splits
        and since <= splits[split].version
        and (until is None or until > splits[split].version)
    ]


def splits_of(tasks: Iterable[int]) -> list[Split]:
    """Return the unfrozen splits that hold one of the tasks, or will once a change in progress is
    committed."""
    ids: set[int] = set()
    for batch in batched(tasks, 900):
        entries = SplitEntry.objects.filter(among("task_id", batch), until=None)
        ids.update(entries.values_list("split_id", flat=True).distinct())
    splits = Split.objects.filter(pk__in=ids, frozen=None)
    return list(splits.select_related("environment").order_by("pk"))


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the items in lists of at most `size`."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch
