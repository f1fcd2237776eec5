"""Admin of what can be played: environments with their splits and tools, and tasks. Read-only."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from unfold.admin import ModelAdmin
from unfold.paginator import InfinitePaginator

from environments import wiring
from environments.models import Environment, Task
from environments.parts import ToolPart, fields, tools

_SUMMARY_CHARACTERS = 140


class ReadOnlyAdmin(ModelAdmin):  # type: ignore[misc]  # unfold has no types
    """Rows that people look at and nobody edits here. Lists never count their table: it may hold millions of rows.

    `page_template` shows one row, as `original` and what `page` adds.
    """

    page_template = ""
    paginator = InfinitePaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    change_list_template = "environments/list.html"
    list_fullwidth = True
    list_per_page = 50
    sortable_by = ()
    actions = None
    empty = ""
    """What would be listed here, and how to get it."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        row = self.get_object(request, object_id)
        if not self.has_view_permission(request, row):
            raise PermissionDenied
        if row is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)  # type: ignore[no-any-return]
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": str(row),
            "original": row,
            "is_fullwidth": "1",
            **self.page(request, row),
        }
        return TemplateResponse(request, self.page_template, context)

    def page(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """The page's own context."""
        return {}


class ChipFilter(admin.SimpleListFilter):
    """A filter that stands above its list as a chip; the URL holds its state."""

    template = "environments/filter.html"


class EnvironmentFilter(ChipFilter):
    title = "environment"
    parameter_name = "environment"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(str(pk), name) for pk, name in Environment.objects.values_list("pk", "name")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value() or ""
        return queryset.filter(environment=int(chosen)) if chosen.isdecimal() else queryset


def summary_of(environment: Environment) -> str:
    """The first line of its description."""
    return Truncator(environment.description.strip().partition("\n")[0]).chars(_SUMMARY_CHARACTERS)


def hosted_tools(name: str) -> list[ToolPart] | None:
    """The class's tools; None where this process plays no class under `name`, or does not play yet."""
    service = wiring.current()
    hosted = service.registry.find(name) if service else None
    return tools(hosted.tools_json) if hosted else None


@admin.register(Environment)
class EnvironmentAdmin(ReadOnlyAdmin):
    page_template = "environments/environment.html"
    list_display = ("name", "summary", "is_hosted", "class_path")
    ordering = ("position", "name")
    empty = "Environments appear here once a server has hosted them: manage.py serve module:Class"

    @admin.display(description="what it is")
    def summary(self, environment: Environment) -> str:
        return summary_of(environment)

    def page(self, request: HttpRequest, row: Environment) -> dict[str, Any]:
        return {"splits": list(row.splits.all()), "tools": hosted_tools(row.name)}


@admin.register(Task)
class TaskAdmin(ReadOnlyAdmin):
    page_template = "environments/task.html"
    list_display = ("name", "environment", "summary")
    list_filter = (EnvironmentFilter,)
    list_select_related = ("environment",)
    ordering = ("-pk",)
    empty = "Tasks appear here when a hosted class lists them, or when an agent plays one."

    @admin.display(description="task")
    def name(self, task: Task) -> str:
        return task.content_hash[:8]

    @admin.display(description="content")
    def summary(self, task: Task) -> SafeString:
        return format_html('<code class="summary">{}</code>', Truncator(task.spec).chars(_SUMMARY_CHARACTERS))

    def page(self, request: HttpRequest, row: Task) -> dict[str, Any]:
        entries = row.entries.select_related("split__environment").order_by("split", "position")[:20]
        return {"spec": fields(row.spec), "entries": list(entries)}
