"""History: what people changed of a task, and the tasks that edits made of it or it of. Read by the task's page."""

from __future__ import annotations

from dataclasses import dataclass

from environments.diff import Line, diff
from environments.models import Task, TaskRevision

MOST_SHOWN = 50


@dataclass(frozen=True, slots=True)
class Change:
    """One revision, as its page shows it."""

    revision: TaskRevision
    lines: list[Line]
    """Before and after, compared."""
    became: Task | None
    """The task that took this one's place, where the revision is an edit of it."""
    came_from: Task | None
    """The task whose place this one took, where the revision is the edit that made it."""


@dataclass(frozen=True, slots=True)
class History:
    changes: list[Change]
    """Newest first, MOST_SHOWN at most."""
    older: int | None
    """Changes before this revision are not among them; None: there are no others."""

    @property
    def relatives(self) -> list[Task]:
        """What edits made of the task, newest first, and what it was made of; each once."""
        later = [change.became for change in self.changes if change.became]
        earlier = [change.came_from for change in self.changes if change.came_from]
        return list({task.pk: task for task in [*later, *earlier]}.values())

    @property
    def successor(self) -> Task | None:
        """What took the task's place last, unless the task has come back since."""
        for change in self.changes:
            if change.became or change.came_from:
                return change.became
        return None


def history_of(task: Task, before: int | None = None) -> History:
    """Two queries, each along an index. `before`: only revisions with a smaller id."""
    revisions = TaskRevision.objects.select_related("task", "successor").order_by("-id")
    if before is not None:
        revisions = revisions.filter(pk__lt=before)
    own = list(revisions.filter(task=task)[: MOST_SHOWN + 1])
    made = list(revisions.filter(successor=task)[: MOST_SHOWN + 1])
    found = sorted({one.pk: one for one in [*own, *made]}.values(), key=lambda one: -one.pk)
    shown = found[:MOST_SHOWN]
    return History([_change(one, task) for one in shown], shown[-1].pk if len(found) > MOST_SHOWN else None)


def _change(revision: TaskRevision, task: Task) -> Change:
    is_own = revision.task_id == task.pk
    return Change(
        revision,
        diff(revision.before, revision.after),
        became=revision.successor if is_own and revision.successor_id != task.pk else None,
        came_from=None if is_own else revision.task,
    )
