"""How an action is applied: recorded, in batches, and all of it or nothing.

First the places of tasks and the revisions are staged in batches. Places are not visible yet, and
until the action is decided on it can be stopped, which deletes both again. Then one short
transaction makes the places visible and decides the action. Then the labels of tasks follow from
its revisions (`revision_writer.py`), also if the process dies: the next start of the server finishes what
was decided, and forgets what was not. For few tasks all of this is one transaction.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Max, Min
from django.utils import timezone

from environments import security_log
from environments.curation.action import MAX_TOGETHER, ActionOutcome
from environments.curation.history_rows import Revisions
from environments.curation.revision_writer import apply_labels
from environments.database.background_jobs import Progress, silent
from environments.database.planner_statistics import refresh_statistics
from environments.database.write_pauses import flush_later, give_way
from environments.models import CurationAction, Split, TaskRevision
from environments.tasks.split_change import BATCH, SplitChange, commit

MAX_WAIT_SECONDS = 2.0
"""Longest wait for another change of the same split; changes of one task end sooner."""
JUST_BEGUN = timedelta(minutes=1)


class RecordedAction:
    """One action while it is applied: its row, and the revisions that it writes."""

    def __init__(self, row: CurationAction) -> None:
        self.row = row
        self.revisions = Revisions(row.kind, row.author, row.reason, row.token)

    def decide(self, count: int) -> None:
        """Decide on the action, in the transaction that makes its changes visible."""
        CurationAction.objects.filter(pk=self.row.pk).update(stage="applying", changed=count)

    def done(
        self,
        sentence: str,
        count: int,
        *,
        split: int | None = None,
        task: int | None = None,
        title: str = "",
    ) -> ActionOutcome:
        """Return the outcome, and keep it for the row. `title`: what the activity says instead of
        the sentence."""
        row = self.row
        row.title, row.changed, row.split_id = (
            title or sentence,
            count,
            split if split is not None else row.split_id,
        )
        return ActionOutcome(sentence, count, row.token, split, task)

    def settings(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """Keep the settings that the action changes."""
        self.row.before, self.row.after = json.dumps(before), json.dumps(after)


@contextmanager
def recorded(
    kind: str,
    author: str,
    reason: str = "",
    *,
    environment: int | None = None,
    split: int | None = None,
) -> Iterator[RecordedAction]:
    """Write the row of an action that is applied within. What fails, and what changes nothing,
    leaves no row."""
    row = CurationAction(
        token=uuid.uuid4().hex, kind=kind, stage="staging", author=author[:150], reason=reason
    )
    row.environment_id, row.split_id, row.created = environment, split, timezone.now()
    row.save()
    action = RecordedAction(row)
    try:
        yield action
    except BaseException:
        if CurationAction.objects.filter(pk=row.pk, stage="staging").exists():
            _forget(row)
        raise
    if not row.changed and row.before == row.after:
        _forget(row)
    else:
        _finish(row)


def _finish(row: CurationAction) -> None:
    row.stage = "done"
    if row.environment_id is None:
        places = TaskRevision.objects.filter(change=row.token).aggregate(
            low=Min("task__environment"), high=Max("task__environment")
        )
        row.environment_id = places["low"] if places["low"] == places["high"] else None
    row.save()
    security_log.note("curated", row.title, who=row.author, detail=f"action {row.pk}")


def _forget(row: CurationAction) -> None:
    """Delete an action that was not decided on, with its revisions."""
    RecordedAction(row).revisions.delete()
    CurationAction.objects.filter(pk=row.pk).delete()


class Interrupted(NamedTuple):
    """What became of the actions that had not finished when their server died."""

    settled: int
    """Number of those that were finished or forgotten."""
    running: int
    """Number of those that another process may still be staging."""


def finish_interrupted(begun_before: datetime) -> Interrupted:
    """Finish the actions that a dead process had decided on, and forget those that it had not.

    `begun_before`: the start of this server, whose own actions are left alone.
    """
    settled_count = running = 0
    rows = (
        CurationAction.objects.filter(created__lt=begun_before)
        .exclude(stage="done")
        .select_related("split")
    )
    for row in list(rows):
        if row.stage == "applying":
            apply_labels(row.token)
            row.title = (
                row.title
                or f"{row.get_kind_display()}, {row.changed:,} tasks. The server stopped meanwhile."
            )
            _finish(row)
        # a command may still be staging it: it holds the split, or has only just started
        elif row.created > timezone.now() - JUST_BEGUN or (
            row.split and row.split.changing_until and row.split.changing_until > timezone.now()
        ):
            running += 1
            continue
        else:
            _forget(row)
        settled_count += 1
    return Interrupted(settled_count, running)


def carry_out(
    action: RecordedAction,
    stage: Callable[[Sequence[int]], int],
    tasks: Sequence[int],
    changes: Sequence[SplitChange],
    progress: Progress = silent,
    also: Callable[[], object] = lambda: None,
) -> int:
    """Stage the tasks in batches and commit the changes of splits, with what `also` writes. Returns
    how many changed.

    `stage` stages the changes of splits and writes the revisions of at most BATCH tasks, in a
    transaction, and returns how many tasks change; labels follow from the revisions (`revision_writer.py`).
    `changes` have to be entered. What `progress` raises is raised before anything changes.
    """
    count = 0

    def decide() -> None:
        also()
        action.decide(count)

    if len(tasks) <= MAX_TOGETHER:
        with transaction.atomic():
            count = stage(tasks)
            commit(*staged(changes), also=decide)
            apply_labels(action.row.token)
        return count
    for start in range(0, len(tasks), BATCH):
        with transaction.atomic():
            flush_later()
            count += stage(tasks[start : start + BATCH])
        give_way()
        for change in changes:
            change.hold()
        progress(min(start + BATCH, len(tasks)) // 2, len(tasks))
    commit(*staged(changes), also=decide)

    def finish(count_of_labels: int, total: int) -> None:
        # a task counts half when it is staged; the action is decided on, so nothing stops it
        with suppress(Exception):
            progress(min(len(tasks), (len(tasks) + count_of_labels) // 2), len(tasks))

    apply_labels(action.row.token, finish)
    refresh_statistics()
    return count


def change_of(split: Split) -> SplitChange:
    """Return a change of the split that waits for another one under way; a split that is not served
    stays unserved."""
    return SplitChange(split, wait_seconds=MAX_WAIT_SECONDS, serves=split.is_served)


def staged(changes: Sequence[SplitChange]) -> list[SplitChange]:
    """Return the changes that have something to commit: a version that rises in vain makes every
    reader read again."""
    return [change for change in changes if change.has_staged]
