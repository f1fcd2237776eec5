"""Admin of tasks: the list, and the pages that start from it. The page of one task is in
`task_page`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from environments.access.privacy import viewer_of
from environments.admin.job_page import SERVER, job_url, job_view, jobs_shown_to
from environments.curation.admin.bulk import (
    BULKS,
    LIST_PARAMETERS,
    bulk_view,
    offered,
    selection_of,
)
from environments.curation.admin.exports import export_redirect, export_view
from environments.curation.admin.imports import import_view, preview_view
from environments.curation.admin.study_from_tasks import study_redirect
from environments.curation.admin.task_list import EMPTY_PAGE, chips, heads, page_of, query
from environments.curation.admin.task_page import TaskPage
from environments.curation.admin.tasks_by_figure import check_cursor
from environments.curation.searchable_fields import field_names
from environments.curation.selection import Selection
from environments.curation.task_search import OPERATORS, FieldTest
from environments.features import url_of_page
from environments.filtering.addresses import PARSED, refuse_doubles, refuse_others, takes
from environments.filtering.parameters import BadFilter
from environments.models import Environment, Split, Task
from environments.tasks.task_states import SERVED

MAX_SPLITS_OFFERED = 200
MAX_FIELDS_OFFERED = 50
MAX_COUNTED = 10_000
MAX_COUNT_SECONDS = 0.02
"""Longest time for counting what the bulk actions would touch; then they say "at least"."""


@admin.register(Task)
class TaskAdmin(TaskPage):
    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        refuse_doubles(request)
        values, trouble = request.GET.dict(), ""
        if values.get("field") and values.get("value"):
            return HttpResponseRedirect(f"{request.path}?{urlencode(_with_field_test(values))}")
        try:
            selection = Selection.parse(values, viewer_of(request.user), also=LIST_PARAMETERS)
        except BadFilter as error:
            trouble = str(error)
            selection = selection_of(request, {**values, "search": ""}, also=LIST_PARAMETERS)
        for name, other in (("after", "before"), ("before", "after")):
            check_cursor(selection, name, values.get(name, ""))
            if values.get(name) and values.get(other):
                raise BadFilter(
                    name, values[name], f"the address has {other}, too; one of both is allowed"
                )
        environments, splits = _offered_places(selection)
        split = None if selection.split is None else _split_of(selection, selection.split)
        page = EMPTY_PAGE if trouble else page_of(selection, values)
        one_environment = selection.environment is not None or selection.split is not None
        context = {
            **self.page_context(request, title="Tasks"),
            "page": page,
            "chips": chips(selection, environments, splits),
            "chosen": selection.values(),
            "count": selection.count(MAX_COUNTED, MAX_COUNT_SECONDS) if page.rows else None,
            "hidden": {
                name: value for name, value in selection.values().items() if name != "search"
            },
            "search": values.get("search", ""),
            "trouble": trouble,
            "fields": _fields(selection, environments, split),
            "split": split,
            "one_environment": one_environment,
            "heads": heads(selection, is_one_environment=one_environment),
            "anywhere": query(replace(selection, state="")) if selection.state == SERVED else "",
            "is_empty": not page.rows and not self.get_queryset(request).exists(),
            "bulks": offered(request, selection),
            "back": query(selection),
            "may_import": request.user.has_perm("environments.add_task"),
            "running": [
                (job, job_url(job.id)) for job in jobs_shown_to(request) if job.state == "running"
            ],
        }
        return TemplateResponse(
            request, "curation/tasks.html", context, status=400 if trouble else 200
        )

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

    @takes(PARSED)
    def bulk(self, request: HttpRequest, name: str) -> HttpResponse:
        """Run one bulk action. Redirect to the list if no tasks are named, as after a login."""
        if request.method == "POST":
            # the form says which tasks are meant, and the page shows no others
            refuse_others(request, ())
        if name == "export" and request.method == "POST":
            return export_redirect(request)
        if name == "study" and request.method == "POST" and url_of_page("study_new"):
            return study_redirect(request)
        if name not in BULKS:
            raise Http404(f"There is no action {name!r}. Use one of {', '.join(BULKS)}.")
        if request.method != "POST" and not request.GET:
            return HttpResponseRedirect(reverse("admin:environments_task_changelist"))
        return bulk_view(request, BULKS[name], self.page_context(request))

    @takes("environment", "split", "name", "type")
    def import_tasks(self, request: HttpRequest) -> HttpResponse:
        """Return the form that uploads a file."""
        return import_view(request, self.page_context(request))

    @takes("environment", "split", "type", "job", SERVER, "state")
    def preview(self, request: HttpRequest, token: str) -> HttpResponse:
        """Preview the import of an uploaded file."""
        return preview_view(request, token, self.page_context(request))

    @takes(PARSED)
    def export_tasks(self, request: HttpRequest) -> HttpResponseBase:
        """Return the selected tasks as a file."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        return export_view(request, self.page_context(request))

    @takes("back", SERVER, "state")
    def job(self, request: HttpRequest, job_id: str) -> HttpResponse:
        """Return the progress of long work."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        return job_view(request, job_id, self.page_context(request))


def _with_field_test(values: dict[str, str]) -> dict[str, str]:
    """Return the parameters with the test of a field, which the form of the list sends, in the
    search."""
    name, operator, value = (
        values.pop("field"),
        values.pop("is", ":"),
        values.pop("value").strip().replace('"', ""),
    )
    if operator not in OPERATORS:
        raise BadFilter("is", operator, f"allowed are {', '.join(OPERATORS)}")
    test = FieldTest(name, operator, value, is_text=" " in value)
    return {**values, "search": f"{values.get('search', '')} {test}".strip()}


def _split_of(selection: Selection, number: int) -> Split:
    """Return the split of the list. Raises: BadRequest."""
    splits = (
        Split.objects.existing()
        .select_related("environment")
        .seen_by(selection.viewer)
        .filter(pk=number)
    )
    if (split := splits.first()) is None or selection.environment not in (
        None,
        split.environment_id,
    ):
        where = "" if selection.environment is None else " in this environment"
        raise BadFilter("split", str(number), f"there is no split of that number{where}")
    return split


def _fields(
    selection: Selection, environments: list[Environment], split: Split | None
) -> list[str]:
    """Return the names of the fields to search by; none without an environment."""
    number = split.environment_id if split else selection.environment
    environment = next((row for row in environments if row.pk == number), None)
    return [] if environment is None else field_names(environment)[:MAX_FIELDS_OFFERED]


def _offered_places(selection: Selection) -> tuple[list[Environment], list[Split]]:
    """Return the environments and splits to choose from; with a chosen environment only its
    splits."""
    rows = Environment.objects.seen_by(selection.viewer)
    environments = list(rows.only("pk", "name", "position", "task_schema"))
    if selection.environment not in (None, *(row.pk for row in environments)):
        raise BadFilter(
            "environment", str(selection.environment), "there is no environment of that number"
        )
    splits = Split.objects.existing().seen_by(selection.viewer)
    splits = splits.order_by("environment__position", "position", "name")
    if selection.environment is not None:
        return environments, list(splits.filter(environment=selection.environment))
    return environments, list(splits[:MAX_SPLITS_OFFERED])
