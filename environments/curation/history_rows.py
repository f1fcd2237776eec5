"""Revisions: the rows that one action adds to the history of tasks."""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from django.utils import timezone

from environments.database.json_rows import among, execute
from environments.database.write_pauses import give_way
from environments.models import TaskRevision
from environments.tasks.task_places import FormerPlace, places_of_tasks

_INSERT = """
    INSERT INTO environments_taskrevision (task_id, kind, change, author, reason, created, before, after)
    SELECT CAST(value->>0 AS bigint), %s, %s, %s, %s, %s, CAST(value->1 AS text), CAST(value->2 AS text)
    FROM {rows} WHERE true
"""
_EDIT = """
    INSERT INTO environments_taskrevision
        (kind, change, author, reason, created, task_id, successor_id, before, after)
    SELECT %s, %s, %s, %s, %s, old.id, new.id, old.spec, new.spec
    FROM {rows} AS pair
    JOIN environments_task old ON old.id = CAST(pair.value->>0 AS bigint)
    JOIN environments_task new ON new.id = CAST(pair.value->>1 AS bigint)
"""


@dataclass(frozen=True, slots=True)
class Revisions:
    """Writes the revisions of one action, which share the token `change`. The action is visible
    once it is decided."""

    kind: str
    author: str
    reason: str
    change: str = field(default_factory=lambda: uuid.uuid4().hex)

    def write(self, rows: Iterable[tuple[int, dict[str, Any], dict[str, Any]]]) -> int:
        """Write a revision for each (task, before, after), in the transaction of the change.
        Returns their number."""
        values = list(rows)
        execute(
            _INSERT,
            [self.kind, self.change, self.author[:150], self.reason, timezone.now()],
            values,
        )
        return len(values)

    def write_edits(self, pairs: Sequence[tuple[int, int]], merges: Collection[int] = ()) -> None:
        """Write of each (task, task in its place) a revision with both specs.

        `merges`: tasks in place that had places of their own before.
        """
        own = self.kind if self.kind in ("undo", "restore") else "edit"
        for kind, is_merge in ((own, False), ("merge", True)):
            some = [pair for pair in pairs if (pair[1] in merges) == is_merge]
            execute(
                _EDIT, [kind, self.change, self.author[:150], self.reason, timezone.now()], some
            )

    def delete(self) -> None:
        """Delete all of them, in batches, because the action is not applied."""
        while keys := list(
            TaskRevision.objects.filter(change=self.change).values_list("pk", flat=True)[:2000]
        ):
            TaskRevision.objects.filter(among("pk", keys)).delete()
            give_way()


@lru_cache(256)  # the revisions of one action have few different texts
def object_of(text: str) -> dict[str, Any]:
    """Return the JSON object in `before` or `after` of a revision; an empty one of anything else.
    Do not change it."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def split_names(tasks: Sequence[int]) -> dict[int, set[str]]:
    """Return the names of the splits that now hold each of some hundred tasks."""
    names = defaultdict[int, set[str]](set)
    for place in places_of_tasks(tasks):
        names[place.task].add(place.split.name)
    return names


def splits_before(
    names: Collection[str], places: Mapping[str, Sequence[FormerPlace]]
) -> dict[str, Any]:
    """Return the `before` of a revision: the names of splits, and the places in those that the task
    leaves."""
    positions = {
        name: [[place.position, place.source_hash] for place in some]
        for name, some in places.items()
    }
    return {"splits": sorted(names)} | ({"places": positions} if positions else {})


def splits_after(names: Collection[str], class_splits: Collection[str]) -> dict[str, Any]:
    """Return the `after` of a revision: the names of splits, and those where the task is at a place
    of its class."""
    return {"splits": sorted(names)} | ({"listed": sorted(class_splits)} if class_splits else {})


def former_places(task: int, before: Mapping[str, Any]) -> dict[str, list[FormerPlace]]:
    """Return the places in the `before` of a revision, by the name of the split."""
    places = before.get("places", {})
    return {
        name: [FormerPlace(at, task, content) for at, content in some]
        for name, some in places.items()
    }
