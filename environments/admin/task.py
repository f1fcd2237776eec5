"""Admin of tasks: the list, and the pages that start from it. The page of one task is in `task_page`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from environments.access.privacy import visible
from environments.admin.bulk import BULKS, bulk_view, offered, selection_of
from environments.admin.exports import export_redirect, export_view
from environments.admin.imports import import_view, preview_view
from environments.admin.jobs import job_view, jobs_shown_to
from environments.admin.task_list import chips, page_of, query
from environments.admin.task_page import TaskPage
from environments.curation.filter_parameters import SERVED
from environments.curation.selection import Selection
from environments.curation.splits import existing_splits
from environments.models import Environment, Split, Task

MAX_SPLITS_OFFERED = 200


@admin.register(Task)
class TaskAdmin(TaskPage):
    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        selection = selection_of(request, request.GET.dict())
        environments, splits = _offered_places(selection)
        split = next((split for split in splits if split.pk == selection.split), None)
        page = page_of(selection, request.GET.dict())
        context = {
            **self._context(request, "Tasks"),
            "page": page,
            "chips": chips(selection, environments, splits),
            "chosen": selection.values(),
            "hidden": {name: value for name, value in selection.values().items() if name != "search"},
            "search": selection.search,
            "split": split,
            "one_environment": selection.environment is not None or selection.split is not None,
            "anywhere": query(replace(selection, state="")) if selection.state == SERVED else "",
            "is_empty": not page.rows and not self.get_queryset(request).exists(),
            "bulks": offered(request, selection),
            "back": query(selection),
            "may_import": request.user.has_perm("environments.add_task"),
            "running": [job for job in jobs_shown_to(request) if job.state == "running"],
        }
        return TemplateResponse(request, "environments/tasks.html", context)

    def get_urls(self) -> list[URLPattern]:
        own = [
            path("act/<str:name>/", self.bulk, name="environments_task_bulk"),
            path("import/", self.import_tasks, name="environments_task_import"),
            path("import/<str:token>/", self.preview, name="environments_task_look"),
            path("export/", self.export_tasks, name="environments_task_export"),
            path("jobs/<str:job_id>/", self.job, name="environments_task_job"),
        ]
        for pattern in own:
            pattern.callback = self.admin_site.admin_view(pattern.callback)
        return [*own, *super().get_urls()]

    def bulk(self, request: HttpRequest, name: str) -> HttpResponse:
        """Run one bulk action. Redirect to the list if no tasks are named, as after a login."""
        if name == "export" and request.method == "POST":
            return export_redirect(request)
        if name not in BULKS:
            raise Http404(f"There is no action {name!r}. Use one of {', '.join(BULKS)}.")
        if request.method != "POST" and not request.GET:
            return HttpResponseRedirect(reverse("admin:environments_task_changelist"))
        return bulk_view(request, BULKS[name], self._context(request, ""))

    def import_tasks(self, request: HttpRequest) -> HttpResponse:
        """Return the form that uploads a file."""
        return import_view(request, self._context(request, ""))

    def preview(self, request: HttpRequest, token: str) -> HttpResponse:
        """Preview the import of an uploaded file."""
        return preview_view(request, token, self._context(request, ""))

    def export_tasks(self, request: HttpRequest) -> HttpResponseBase:
        """Return the selected tasks as a file."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        return export_view(request, self._context(request, ""))

    def job(self, request: HttpRequest, job_id: str) -> HttpResponse:
        """Return the progress of long work."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        return job_view(request, job_id, self._context(request, ""))

    def _context(self, request: HttpRequest, title: str) -> dict[str, Any]:
        """Return the context of every page about tasks."""
        shared = self.admin_site.each_context(request)
        return {**shared, "opts": self.opts, "title": title, "is_fullwidth": "1"}


def _offered_places(selection: Selection) -> tuple[list[Environment], list[Split]]:
    """Return the environments and splits to choose from; with a chosen environment only its splits."""
    rows = Environment.objects.filter(visible(selection.hidden, "pk"))
    environments = list(rows.only("pk", "name", "position"))
    splits = existing_splits().filter(visible(selection.hidden)).order_by("environment__position", "position", "name")
    if selection.environment is not None:
        return environments, list(splits.filter(environment=selection.environment))
    return environments, list(splits[:MAX_SPLITS_OFFERED])
