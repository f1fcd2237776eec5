"""Review: what becomes of each row of a file, by what the database holds. Reads only.

A dry run and an import decide alike: both go by the content that the target had before the import.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from django.db.models import F

from environments.models import SplitEntry, TaskTag, seen_at
from environments.transfer.check import Candidate
from environments.transfer.lookup import tasks_by_hash
from environments.transfer.report import Report
from environments.transfer.reserved import Labels
from environments.transfer.rows import Refusal
from environments.transfer.scratch import Scratch
from environments.transfer.target import Target

Kind = Literal["added", "edited", "relabelled", "duplicate"]
_EDITED = b"edited"


@dataclass(frozen=True, slots=True)
class Known:
    """A task that exists."""

    id: int
    state: str
    reason: str
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Place:
    split: int
    name: str
    is_frozen: bool
    is_hidden: bool


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of one row."""

    kind: Kind
    candidate: Candidate
    task: Known | None
    """The task that has this content already."""
    origin: Known | None
    """Of an edit: the task whose place this content takes."""
    is_relabelled: bool
    """Whether tags or state of `task` change."""


@dataclass(slots=True)
class _Found:
    """What the database holds of one batch."""

    tasks: dict[str, Known] = field(default_factory=dict)
    """By hash."""
    places: dict[int, list[Place]] = field(default_factory=dict)
    """By task."""


class Review:
    """Decides about a file's rows, batch by batch, and keeps the report."""

    def __init__(self, target: Target, report: Report, scratch: Scratch) -> None:
        self._target, self.report, self._scratch = target, report, scratch
        self._split = target.split.pk if target.split else None

    def decisions(self, batch: Iterable[Candidate | Refusal]) -> Iterator[Decision]:
        """About the rows that are not refused, in order."""
        rows = list(batch)
        found = self._found([row for row in rows if isinstance(row, Candidate)])
        for row in rows:
            decided = row if isinstance(row, Refusal) else self._decide(row, found)
            if isinstance(decided, Refusal):
                self.report.refuse(decided)
            else:
                self._count(decided, found)
                yield decided

    def _decide(self, row: Candidate, found: _Found) -> Decision | Refusal:
        task = found.tasks.get(row.hash)
        origin = found.tasks.get(row.origin) if row.origin else None
        stands = task is not None and self._stands(task, found)
        if row.origin and origin is None and not stands:
            return Refusal(row.number, _unknown_origin(row.origin, self._target))
        if not self._scratch.is_new(row.hash):
            return Decision("duplicate", row, task, None, False)
        is_relabelled = task is not None and _is_relabelled(task, row.labels, found.places.get(task.id, []))
        if origin and row.origin and self._is_edit(origin, found, stands=stands):
            if not self._scratch.is_new(row.origin, _EDITED):
                return Refusal(row.number, f"_hash {row.origin[:8]}… is changed by a row before; keep one of them")
            return Decision("edited", row, task, origin, is_relabelled)
        if not stands:
            return Decision("added", row, task, None, is_relabelled)
        return Decision("relabelled" if is_relabelled else "duplicate", row, task, None, is_relabelled)

    def _is_edit(self, origin: Known, found: _Found, *, stands: bool) -> bool:
        """An import that is done again finds the old task in no place that it could change."""
        return not stands or any(not place.is_frozen for place in found.places.get(origin.id, []))

    def _stands(self, task: Known, found: _Found) -> bool:
        return any(place.split == self._split for place in found.places.get(task.id, []))

    def _count(self, decision: Decision, found: _Found) -> None:
        report, labels = self.report, decision.candidate.labels
        report.from_elsewhere += labels.split not in (None, self._target.name)
        if decision.kind == "added":
            report.add(decision.candidate.text)
        elif decision.kind == "duplicate":
            report.duplicates += 1
        else:
            report.changed += 1
            touched = decision.origin or decision.task
            for place in found.places.get(touched.id, []) if touched else ():
                if place.is_frozen:
                    report.frozen_in[place.name] += 1
                elif decision.kind == "edited":
                    report.replaced_in[place.name] += 1

    def _found(self, rows: list[Candidate]) -> _Found:
        hashes = {row.hash for row in rows} | {row.origin for row in rows if row.origin}
        found = _Found()
        tasks = tasks_by_hash(self._target.environment.pk, hashes)
        tags: dict[int, list[str]] = {}
        named = TaskTag.objects.filter(task__in=[pk for _, pk, *_ in tasks]).values_list("task_id", "name")
        for task, name in named if tasks else ():
            tags.setdefault(task, []).append(name)
        for digest, pk, state, reason in tasks:
            found.tasks[digest] = Known(pk, state, reason, tuple(sorted(tags.get(pk, ()))))
        for task, place in _places([pk for _, pk, *_ in tasks]):
            found.places.setdefault(task, []).append(place)
        return found


def _places(tasks: list[int]) -> Iterator[tuple[int, Place]]:
    """Where the tasks stand, as their splits are seen now."""
    if not tasks:
        return
    seen = SplitEntry.objects.filter(seen_at(F("split__version")), task__in=tasks)
    names = ("task_id", "split_id", "split__name", "split__frozen", "is_hidden")
    for task, split, name, frozen, is_hidden in seen.values_list(*names).distinct():
        yield task, Place(split, name, frozen is not None, is_hidden)


def _is_relabelled(task: Known, labels: Labels, places: list[Place]) -> bool:
    """Also when places do not show the state, because an import ended between the two."""
    if labels.tags is not None and labels.tags != task.tags:
        return True
    if labels.state is None:
        return False
    is_hidden = labels.state == "quarantined"
    is_shown_wrong = any(place.is_hidden != is_hidden for place in places if not place.is_frozen)
    return is_shown_wrong or (labels.state, labels.reason) != (task.state, task.reason)


def _unknown_origin(digest: str, target: Target) -> str:
    return (
        f"_hash {digest[:8]}… is no task of {target.environment.name!r}; leave the column empty to add the row as a "
        "new task"
    )
