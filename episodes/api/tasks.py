"""The list of tasks and single tasks, with their figures.

A task that a person plays blind is left out of their lists and refused to them as long as the
episode runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import Http404
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response

from environments.curation.task_filter import SERVED
from environments.curation.task_states import with_states
from environments.filtering.parameters import BadFilter
from environments.keys.agent_key import CURATE, READ
from environments.models import Environment, Split, SplitEntry, Task, TaskStatistics
from environments.models.viewer import visible_tasks
from environments.scoring.convention import Convention, Coverage
from environments.scoring.task_buckets import interval
from environments.scoring.task_statistics import coverage_of_row
from environments.tasks.task_places import places
from episodes.analytics.revision_marks import pooled_in
from episodes.analytics.run_splits import split_named
from episodes.analytics.scopes import scope_of
from episodes.api.base import ApiView, limit_of, page, whole
from episodes.api.environments import environment_of
from episodes.api.openapi import documented, parameter
from episodes.api.serializers import RevisionSerializer, page_serializer
from episodes.api.serializers_tasks import TaskDetailSerializer, TaskSerializer
from episodes.filtering.filters import SPLIT_NEEDS_ENVIRONMENT
from episodes.models import Episode
from episodes.models.privacy import played_with
from episodes.visibility import blind_episode, blind_tasks, task_sentence

_POOLED = RevisionSerializer(
    many=True,
    help_text="Revisions of the environments of tasks with statistics, latest first, that may be "
    "counted together; "
    "empty if each has one alone",
)


@dataclass(frozen=True, slots=True)
class TaskStatisticsRow:
    """A row of TaskStatistics with its interval."""

    row: TaskStatistics
    convention: str
    """Code of the convention by which it was counted."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.row, name)

    @property
    def rate(self) -> float | None:
        return self.row.rate if self.row.attempts else None

    @property
    def rate_low(self) -> float | None:
        return interval(self.row.successes, self.row.attempts).low if self.row.attempts else None

    @property
    def rate_high(self) -> float | None:
        return interval(self.row.successes, self.row.attempts).high if self.row.attempts else None

    @property
    def coverage(self) -> Coverage:
        return coverage_of_row(self.row, Convention.from_code(self.convention))


class TasksView(ApiView):
    """Tasks of all environments or of one, newest first; with `split`, in the order of the split."""

    scopes = (READ, CURATE)
    parameters = ("environment", "split", "limit", "after")

    @documented(
        "tasks",
        "tasks",
        page_serializer(TaskSerializer, "TaskPage", pooled_revisions=_POOLED),
        *("environment", "split", "limit"),
        parameter("after", "Cursor of a page; take it from `next`"),
        may_miss=True,
    )
    def get(self, request: Request) -> Response:
        limit, after = limit_of(request), whole(request, "after")
        name = request.GET.get("environment", "")
        environment = environment_of(name, self.reader) if name else None
        split = _split_asked(request, environment)
        if split is not None:
            self.reader.key.check_split(split.name)
            found, cursor = _of_split(self, split, after, limit)
        else:
            found, cursor = _newest(self, environment, after, limit)
        shape: Any = TaskSerializer(
            _with_states(_with_figures(found, self), self), many=True, context=self.context
        )
        environments = {task.environment_id: task.environment for task in found if task.figures}  # type: ignore[attr-defined]
        pooled: Any = RevisionSerializer(
            pooled_in([scope_of(one) for one in environments.values()]), many=True
        )
        return Response(page(request, shape.data, cursor, pooled_revisions=pooled.data))


class TaskView(ApiView):
    """One task."""

    scopes = (READ, CURATE)

    @documented("task", "tasks", TaskDetailSerializer, may_miss=True)
    def get(self, request: Request, pk: int) -> Response:
        found = list(_readable(self).filter(pk=pk).select_related("environment"))
        if not found:
            raise Http404(f"There is no task {pk}.")
        if (episode := blind_episode(self.reader.person, pk)) is not None:
            raise PermissionDenied(task_sentence(episode))
        [task] = _with_states(_with_figures(found, self), self)
        task.pooled_revisions = pooled_in([scope_of(task)]) if task.figures else []  # type: ignore[attr-defined]
        return Response(TaskDetailSerializer(task, context=self.context).data)


def _split_asked(request: Request, environment: Environment | None) -> Split | None:
    """Return the split that the address names; None if it names none. Raises: BadFilter."""
    name = request.GET.get("split", "")
    if name and environment is None:
        raise BadFilter("split", name, SPLIT_NEEDS_ENVIRONMENT)
    return split_named(environment, name) if environment else None


def _readable(view: ApiView) -> QuerySet[Task]:
    """Return the tasks that the reader may read. A key does not see tasks that others played from
    their own spec."""
    label, key = view.reader.key_label, view.reader.key
    tasks = Task.objects.seen_by(view.reader.viewer)
    if key.environments is not None:
        tasks = tasks.filter(environment__name__in=key.environments)
    if key.splits is not None:
        placed = SplitEntry.objects.filter(
            task=OuterRef("pk"), until=None, split__name__in=key.splits
        )
        tasks = tasks.filter(Exists(placed))
    if label is None:
        return tasks
    own = Exists(Episode.objects.filter(played_with(label), task=OuterRef("pk")))
    return tasks.filter(~Q(source="played") | own)


def _newest(
    view: ApiView, environment: Environment | None, after: int | None, limit: int
) -> tuple[Sequence[Task], int | None]:
    rows = _readable(view).exclude(pk__in=blind_tasks(view.reader.person))
    rows = rows.select_related("environment").order_by("-pk")
    rows = rows if environment is None else rows.filter(environment=environment)
    rows = rows if after is None else rows.filter(pk__lt=after)
    found = list(rows[: limit + 1])
    return found[:limit], found[limit - 1].pk if len(found) > limit else None


def _of_split(
    view: ApiView, split: Split, after: int | None, limit: int
) -> tuple[Sequence[Task], int | None]:
    entries = places(split.pk).filter(visible_tasks(view.reader.viewer, "task__"))
    entries = entries.exclude(task__in=blind_tasks(view.reader.person))
    entries = entries.order_by("position").select_related("task__environment")
    entries = entries if after is None else entries.filter(position__gt=after)
    found = list(entries[: limit + 1])
    return [entry.task for entry in found[:limit]], found[limit - 1].position if len(
        found
    ) > limit else None


def _with_figures(tasks: Sequence[Task], view: ApiView) -> Sequence[Task]:
    """Return the tasks with `figures`: None without attempts, and for a key, which sees only its
    own episodes."""
    is_person = view.reader.key_label is None
    rows = TaskStatistics.objects.filter(task__in=tasks, by="all") if is_person and tasks else ()
    found = {row.task_id: row for row in rows}
    for task in tasks:
        row = found.get(task.pk)
        figures = TaskStatisticsRow(row, task.environment.convention) if row else None
        task.figures = figures  # type: ignore[attr-defined]
    return tasks


def _with_states(tasks: Sequence[Task], view: ApiView) -> Sequence[Task]:
    """Return the tasks with `state_now` and, of superseded ones, the `successor` if the reader may
    read it."""
    found = with_states(Task.objects.filter(pk__in=[task.pk for task in tasks])) if tasks else ()
    states = {task.pk: str(task.standing) for task in found}
    replaced = [task.replaced_by_id or 0 for task in tasks if states.get(task.pk) == "superseded"]
    successors = (
        {one.pk: one for one in _readable(view).filter(pk__in=replaced)} if replaced else {}
    )
    for task in tasks:
        state = states.get(task.pk, SERVED)
        successor = successors.get(task.replaced_by_id or 0) if state == "superseded" else None
        task.state_now = "active" if state == SERVED else state  # type: ignore[attr-defined]
        task.successor = successor  # type: ignore[attr-defined]
    return tasks
