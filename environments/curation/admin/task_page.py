"""The page of one task: its content, splits, results and history, and what can be done with it.

The base class of the tasks' admin in `environments.curation.admin.task`, which adds the list.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

from environments.access.privacy import viewer_of
from environments.admin.base import ReadOnlyAdmin
from environments.curation.admin import task_actions, task_edit
from environments.curation.admin.review_walk import review_of
from environments.curation.admin.task_edit import tried
from environments.database.storable import id_in
from environments.display.parts import fields
from environments.filtering.addresses import id_asked, takes
from environments.models import Task
from environments.models.viewer import visible_tasks
from environments.service import task_line
from environments.tasks.flags import flags_of
from environments.tasks.task_facts import figures_by_task, history_of, task_facts_of, versions_of


class TaskPage(ReadOnlyAdmin):
    """The page of one task, and the addresses below it."""

    page_template = "curation/task.html"
    page_parameters = ("before", "list", "at")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Task]:
        rows: QuerySet[Task] = super().get_queryset(request)
        return rows.filter(visible_tasks(viewer_of(request.user)))

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Task | None:
        pk = id_in(object_id)
        return (
            None
            if pk is None
            else self.get_queryset(request).select_related("environment").filter(pk=pk).first()
        )

    def page(self, request: HttpRequest, row: Task) -> dict[str, Any]:
        history = history_of(row, id_asked(request, "before"))
        environment = row.environment
        versions = versions_of(row)
        results = figures_by_task(version.pk for version in versions)
        return {
            "title": task_line(environment, row.spec),
            "spec": fields(row.spec),
            "facts": task_facts_of(row),
            "flags": flags_of(row),
            "history": history.without_contents
            if viewer_of(request.user).sealed_splits
            else history,
            "versions": [(version, results[version.pk]) for version in versions],
            "may_change": may_change(request),
            "review": review_of(request),
        }

    def get_urls(self) -> list[URLPattern]:
        admin_view = self.admin_site.admin_view
        task = "<id:pk>"
        return [
            path(f"{task}/spec.json", admin_view(self.spec_view), name="environments_task_spec"),
            path(f"{task}/prompt/", admin_view(self.prompt_view), name="environments_task_prompt"),
            path(
                f"{task}/edit/", self._changing(task_edit.edit_view), name="environments_task_edit"
            ),
            path(
                f"{task}/do/", self._changing(task_actions.change_view), name="environments_task_do"
            ),
            path(
                f"{task}/settle/",
                self._changing(task_actions.settle_view),
                name="environments_task_settle",
            ),
            path(
                f"{task}/restore/<id:revision>/",
                self._changing(task_actions.undo_view),
                name="environments_task_restore",
            ),
            *super().get_urls(),
        ]

    def spec_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Return the whole spec, exactly as stored."""
        return HttpResponse(self._task(request, pk).spec, content_type="application/json")

    def prompt_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Return the page with the task's present prompt. Only by POST, because it runs the
        author's code."""
        task = self._task(request, pk)
        if request.method != "POST" or not may_change(request):
            raise PermissionDenied
        variables = {"original": task, **self.page(request, task), "verdict": tried(task)}
        context = self.page_context(request, **variables)
        return TemplateResponse(request, self.page_template, context)

    def _task(self, request: HttpRequest, pk: int) -> Task:
        task = self.get_object(request, str(pk))
        if not self.has_view_permission(request, task):
            raise PermissionDenied
        if task is None:
            raise Http404(f"There is no task {pk}.")
        return task

    def _changing(self, view: Any) -> Any:
        """Wrap `view` of one task so that only people who may change tasks reach it."""

        @takes("list", "at")
        def checked(request: HttpRequest, pk: int, **more: Any) -> HttpResponse:
            task = self._task(request, pk)
            if not may_change(request):
                raise PermissionDenied
            answer: HttpResponse = view(
                request, task, partial(self.page_context, request, original=task), **more
            )
            return answer

        return self.admin_site.admin_view(checked)


def may_change(request: HttpRequest) -> bool:
    """Return whether the person may change tasks."""
    return request.user.has_perm("environments.change_task")
