"""Writes the labels of tasks that the revisions of one action say: states, reasons, tags, and what
an edit replaced.

An action writes its revisions first, unseen by agents. Then what is served changes, all at once,
and from that moment on the labels follow from the revisions alone: a process that dies in between
leaves all that is needed to finish them.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from django.db import transaction
from django.db.models import Case, F, QuerySet, TextField, Value, When

from environments.curation.history_rows import object_of
from environments.database.background_jobs import Progress, silent
from environments.database.json_rows import among, execute
from environments.database.write_pauses import flush_later, give_way
from environments.models import Task, TaskRevision

BATCH_REVISIONS = 1000
"""Revisions whose labels are written in one transaction, which takes about 50 ms."""

_STATE = """
    UPDATE environments_task SET state = %s, reason = %s
    WHERE id IN (SELECT CAST(value->>0 AS bigint) FROM {rows})
"""
_TAG = """
    INSERT INTO environments_tasktag (task_id, name)
    SELECT CAST(value->>0 AS bigint), value->>1 FROM {rows} WHERE true
    ON CONFLICT DO NOTHING
"""
_UNTAG = """
    DELETE FROM environments_tasktag
    WHERE name = %s AND task_id IN (SELECT CAST(value->>0 AS bigint) FROM {rows})
"""
_REPLACED = """
    UPDATE environments_task SET replaced_by_id = CAST(pair.value->>1 AS bigint)
    FROM {rows} AS pair WHERE environments_task.id = CAST(pair.value->>0 AS bigint)
"""
_FLAGGED = """
    UPDATE environments_taskflag SET task_id = CAST(pair.value->>1 AS bigint)
    FROM {rows} AS pair
    WHERE environments_taskflag.task_id = CAST(pair.value->>0 AS bigint) AND environments_taskflag.settled IS NULL
"""

Change = tuple[int, int, int | None, str, str]
"""Id, task, successor, and before and after, which are empty if there is a successor: then they are
specs."""


def apply_labels(change: str, progress: Progress = silent) -> None:
    """Write what the revisions of an action say of their tasks, in batches. Writing it again
    changes nothing."""
    count = 0
    for batch in changes_of(change):
        # the others say only which splits have the task
        if changes := [
            change
            for change in batch
            if change[2] is not None
            or not object_of(change[4]).keys().isdisjoint(("state", "tags"))
        ]:
            with transaction.atomic():
                flush_later()
                write_labels(changes)
            give_way()
        count += len(batch)
        progress(count, count)


def changes_of(change: str, *, newest_first: bool = False) -> Iterator[list[Change]]:
    """Yield the revisions of an action in batches.

    All ids are read first: PostgreSQL, whose statistics know little of a new action, would sort all
    that is left of it for each batch.
    """
    order = "-pk" if newest_first else "pk"
    ids = array(
        "q", TaskRevision.objects.filter(change=change).order_by(order).values_list("pk", flat=True)
    )
    for start in range(0, len(ids), BATCH_REVISIONS):
        some = TaskRevision.objects.filter(among("pk", ids[start : start + BATCH_REVISIONS]))
        yield list(changes_in(some).order_by(order))


def changes_in(revisions: QuerySet[TaskRevision]) -> Any:
    """Return a queryset of Change, newest first."""
    is_spec = When(successor__isnull=False, then=Value("", TextField()))
    old, new = Case(is_spec, default=F("before")), Case(is_spec, default=F("after"))
    return revisions.annotate(old=old, new=new).values_list(
        "pk", "task_id", "successor_id", "old", "new"
    )


def write_labels(changes: Sequence[Change]) -> None:
    """Write the labels of at most BATCH_REVISIONS tasks, in the transaction of the caller."""
    edits = [(task, successor) for _, task, successor, _, _ in changes if successor is not None]
    mark_replaced(edits)
    states, additions, removals = (
        defaultdict[tuple[str, str], list[Any]](list),
        list[Any](),
        defaultdict[str, list[Any]](list),
    )
    for _, task, successor, before, after in changes:
        new = object_of(after) if successor is None else {}
        if "state" in new:
            states[new["state"], new.get("reason", "")].append([task])
        if "tags" in new:
            old = object_of(before)
            additions += [[task, name] for name in set(new["tags"]) - set(old["tags"])]
            for name in set(old["tags"]) - set(new["tags"]):
                removals[name].append([task])
    for (state, reason), tasks in states.items():
        execute(_STATE, [state, reason], tasks)
    execute(_TAG, [], additions)
    for name, tasks in removals.items():
        execute(_UNTAG, [name], tasks)


def mark_replaced(pairs: Sequence[tuple[int, int]]) -> None:
    """Write of some (task, task in its place) that the first is superseded and the second is not.

    Open flags go to the task in its place, where a curator resolves them.
    """
    if not pairs:
        return
    Task.objects.filter(among("pk", (new for _, new in pairs)), replaced_by__isnull=False).update(
        replaced_by=None
    )
    execute(_REPLACED, [], pairs)
    execute(_FLAGGED, [], pairs)
