"""Revisions: the rows that one action adds to the history of tasks."""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.utils import timezone

from environments.database.json_rows import execute
from environments.models import TaskRevision
from environments.tasks.task_places import places_of_tasks

_INSERT = """
    INSERT INTO environments_taskrevision (task_id, kind, change, author, reason, created, before, after)
    SELECT CAST(value->>0 AS bigint), %s, %s, %s, %s, %s, value->>1, value->>2 FROM {rows} WHERE true
"""


@dataclass(frozen=True, slots=True)
class Revisions:
    """Writes the revisions of one action, which share the token `change`."""

    kind: str
    author: str
    reason: str
    change: str = field(default_factory=lambda: uuid.uuid4().hex)

    def write(self, rows: Iterable[tuple[int, dict[str, Any], dict[str, Any]]]) -> int:
        """Write a revision for each (task, before, after), in the transaction of the change. Returns their number."""
        texts = [(task, json.dumps(before), json.dumps(after)) for task, before, after in rows]
        execute(_INSERT, [self.kind, self.change, self.author[:150], self.reason, timezone.now()], texts)
        return len(texts)

    def write_edit(self, task: int, successor: int, before: str, after: str, *, is_merge: bool = False) -> None:
        """Write the revision of an edit; `before` and `after` are the exact specs.

        `is_merge`: the successor had places of its own already.
        """
        row = self._row(task, before, after)
        row.kind = "merge" if is_merge else row.kind
        row.successor_id = successor
        row.save()

    def _row(self, task: int, before: str, after: str) -> TaskRevision:
        return TaskRevision(
            task_id=task,
            kind=self.kind,
            change=self.change,
            author=self.author[:150],
            reason=self.reason,
            before=before,
            after=after,
            created=timezone.now(),
        )


def split_names(tasks: Sequence[int]) -> dict[int, set[str]]:
    """Return the names of the splits that now hold each of some hundred tasks."""
    names = defaultdict[int, set[str]](set)
    for place in places_of_tasks(tasks):
        names[place.task].add(place.split.name)
    return names
