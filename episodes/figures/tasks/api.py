"""The list of tasks and single tasks, with their figures.

A task that a person plays blind is left out of their lists and refused to them as long as the
episode runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import Http404
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response

from environments.filtering.parameters import BadFilter, count_in, given
from environments.keys.agent_key import CURATE, READ
from environments.models import Environment, Split, SplitEntry, Task
from environments.models.viewer import visible_tasks
from environments.scoring.task_statistics import TaskResult
from environments.tasks.task_facts import figures_by_task
from environments.tasks.task_places import places
from environments.tasks.task_states import SERVED, with_states
from episodes.api.auth import Reader
from episodes.api.base import ApiView, limit_of, page
from episodes.api.openapi import documented, parameter
from episodes.api.serializers import RevisionSerializer, page_serializer
from episodes.figures.curves.revision_marks import pooled_in
from episodes.figures.environments.api import environment_of
from episodes.figures.run_splits import split_named
from episodes.figures.scopes import scope_of
from episodes.figures.tasks.serializers import TaskDetailSerializer, TaskSerializer
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


class TasksView(ApiView):
    """Tasks of all environments or of one, newest first; with `split`, in the order of the split."""

    scopes = (READ, CURATE)
    parameters = ("environment", "split", "limit", "after")

    @documented(
        "tasks",
        "tasks",
        page_serializer(TaskSerializer, "TaskPage", pooled_revisions=_POOLED),
        "environment",
        "split",
        "limit",
        parameter("after", "Cursor of a page; take it from `next`"),
    )
    def get(self, request: Request) -> Response:
        limit, after = limit_of(request), given(request.GET, "after", count_in)
        name, split_name = request.GET.get("environment", ""), request.GET.get("split", "")
        environment = environment_of(name, self.reader) if name else None
        if split_name and environment is None:
            raise BadFilter("split", split_name, SPLIT_NEEDS_ENVIRONMENT)
        split = split_named(environment, split_name) if environment else None
        if split is not None:
            self.reader.key.check_split(split.name)
            tasks, cursor = _of_split(self, split, after, limit)
        else:
            tasks, cursor = _newest(self, environment, after, limit)
        _set_figures(tasks, self.reader)
        _set_states(tasks, self.reader)
        shape: Any = TaskSerializer(tasks, many=True, context=self.context)
        environments = {task.environment_id: task.environment for task in tasks if task.figures}  # type: ignore[attr-defined]
        scopes = [scope_of(environment) for environment in environments.values()]
        revisions: Any = RevisionSerializer(pooled_in(scopes), many=True)
        return Response(page(request, shape.data, cursor, pooled_revisions=revisions.data))


class TaskView(ApiView):
    """One task."""

    scopes = (READ, CURATE)

    @documented("task", "tasks", TaskDetailSerializer)
    def get(self, request: Request, pk: int) -> Response:
        task = _readable(self.reader).filter(pk=pk).select_related("environment").first()
        if task is None:
            raise Http404(f"There is no task {pk}.")
        if (episode := blind_episode(self.reader.person, pk)) is not None:
            raise PermissionDenied(task_sentence(episode))
        _set_figures([task], self.reader)
        _set_states([task], self.reader)
        task.pooled_revisions = pooled_in([scope_of(task)]) if task.figures else []  # type: ignore[attr-defined]
        return Response(TaskDetailSerializer(task, context=self.context).data)


def _readable(reader: Reader) -> QuerySet[Task]:
    """Return the tasks that the reader may read. A key does not see tasks that others played from
    their own spec."""
    key, tasks = reader.key, Task.objects.seen_by(reader.viewer)
    if key.environments is not None:
        tasks = tasks.filter(environment__name__in=key.environments)
    if key.splits is not None:
        entries = SplitEntry.objects.filter(until=None, split__name__in=key.splits)
        tasks = tasks.filter(Exists(entries.filter(task=OuterRef("pk"))))
    if reader.key_label is None:
        return tasks
    own = Exists(Episode.objects.filter(played_with(reader.key_label), task=OuterRef("pk")))
    return tasks.filter(~Q(source="played") | own)


def _newest(
    view: ApiView, environment: Environment | None, after: int | None, limit: int
) -> tuple[Sequence[Task], int | None]:
    """Return a page of tasks, and the cursor of the next one."""
    rows = _readable(view.reader).exclude(pk__in=blind_tasks(view.reader.person))
    rows = rows.select_related("environment").order_by("-pk")
    if environment is not None:
        rows = rows.filter(environment=environment)
    if after is not None:
        rows = rows.filter(pk__lt=after)
    tasks = list(rows[: limit + 1])
    return tasks[:limit], tasks[limit - 1].pk if len(tasks) > limit else None


def _of_split(
    view: ApiView, split: Split, after: int | None, limit: int
) -> tuple[Sequence[Task], int | None]:
    """Return a page of the tasks of a split, and the cursor of the next one."""
    rows = places(split.pk).filter(visible_tasks(view.reader.viewer, "task__"))
    rows = rows.exclude(task__in=blind_tasks(view.reader.person))
    rows = rows.order_by("position").select_related("task__environment")
    if after is not None:
        rows = rows.filter(position__gt=after)
    entries = list(rows[: limit + 1])
    cursor = entries[limit - 1].position if len(entries) > limit else None
    return [entry.task for entry in entries[:limit]], cursor


def _set_figures(tasks: Sequence[Task], reader: Reader) -> None:
    """Set `figures`: None without attempts, and for a key, which sees only its own episodes."""
    results = dict[int, TaskResult]()
    if tasks and reader.key_label is None:
        results = figures_by_task(task.pk for task in tasks)
    for task in tasks:
        result = results.get(task.pk)
        task.figures = result if result and result.coverage.rollouts else None  # type: ignore[attr-defined]


def _set_states(tasks: Sequence[Task], reader: Reader) -> None:
    """Set `state_now` and, of superseded tasks, the `successor` if the reader may read it."""
    rows = with_states(Task.objects.filter(pk__in=[task.pk for task in tasks])) if tasks else ()
    states = {row.pk: str(row.standing) for row in rows}
    ids = [task.replaced_by_id or 0 for task in tasks if states.get(task.pk) == "superseded"]
    successors = _readable(reader).in_bulk(ids) if ids else {}
    for task in tasks:
        state, successor = states.get(task.pk, SERVED), None
        if state == "superseded":
            successor = successors.get(task.replaced_by_id or 0)
        task.state_now = "active" if state == SERVED else state  # type: ignore[attr-defined]
        task.successor = successor  # type: ignore[attr-defined]
