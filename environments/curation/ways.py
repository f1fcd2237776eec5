"""Ways: for each filter of a selection the index that leads to its tasks, by their ids.

What tasks several filters have in common is found by going along all their ways at once (`look.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from django.db.models import QuerySet

from environments.curation.candidates import Candidates
from environments.curation.conditions import is_askable
from environments.curation.filters import Filters
from environments.curation.places import places_of
from environments.models import Split, Task, TaskFlag, TaskStatistics, TaskTag

Filter = Literal["", "environment", "split", "tag", "state", "source", "bucket", "flags"]


@dataclass(frozen=True, slots=True)
class Way:
    filter: Filter
    """The filter whose tasks it leads to; empty: none, it leads to all tasks."""
    candidates: Candidates
    is_exact: bool = True
    """Whether it leads to no other tasks than those that satisfy the filter."""
    known_size: int | None = None

    def size(self, most: int) -> int:
        """To how many tasks it leads, counted up to `most`."""
        return self.candidates.size(most) if self.known_size is None else min(self.known_size, most)


def ways(chosen: Filters, split: Split | None) -> list[Way]:
    """One for each filter that is given, the search aside; those that mostly lead to few tasks first.

    `split`: the one that is chosen, if there is such a one in the environment.
    """
    return list(_ways(chosen, split)) or [Way("", _by_id(Task.objects.all()))]


def _ways(chosen: Filters, split: Split | None) -> Iterator[Way]:
    if chosen.tag:
        tagged = TaskTag.objects.filter(name=chosen.tag) if is_askable(chosen.tag) else TaskTag.objects.none()
        yield Way("tag", _by_task(tagged))
    if chosen.flags:
        # distinct: a task may have several flags, and stand at several places of a split
        yield Way("flags", _by_task(TaskFlag.objects.filter(settled=None).distinct()))
    if chosen.source == "dropped":
        yield Way("source", _by_id(Task.objects.filter(dropped__isnull=False)))
    elif chosen.source:
        yield Way("source", _by_id(Task.objects.filter(source=chosen.source)))
    if chosen.bucket == "unseen":
        yield Way("bucket", _by_id(Task.objects.filter(is_unseen=True)), is_exact=False)
    elif chosen.bucket:
        yield Way("bucket", _by_task(TaskStatistics.objects.filter(by="all", bucket=chosen.bucket)), is_exact=False)
    if chosen.state:
        yield Way("state", _by_id(Task.objects.filter(state=chosen.state)))
    if chosen.split is not None:  # which is of one environment
        size = split.size if split else 0  # without those that it hides
        yield Way("split", _by_task(places_of(split).distinct()), known_size=size)
    elif chosen.environment is not None:
        yield Way("environment", _by_id(Task.objects.filter(environment=chosen.environment)))


def _by_id(tasks: QuerySet[Any]) -> Candidates:
    return Candidates(tasks, "pk", "pk")


def _by_task(rows: QuerySet[Any]) -> Candidates:
    return Candidates(rows, "task_id", "task_id")
