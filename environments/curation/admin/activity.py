"""Admin of the activity: every action on tasks, splits and environments, with what it changed, and
its undo."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from environments.access.permissions import SEE_HIDDEN
from environments.access.privacy import viewer_of
from environments.admin.base import ChipFilter, EnvironmentFilter, ReadOnlyAdmin
from environments.curation.admin.confirmation import Confirmation, confirmation
from environments.curation.history_rows import object_of
from environments.curation.task_action import ReasonForm
from environments.curation.undo import Undo, left_alone
from environments.display import formats
from environments.filtering.addresses import id_asked
from environments.models import CurationAction, TaskRevision
from environments.tasks.task_facts import task_names

PAGE_REVISIONS = 50
_BY_KIND = {
    **dict.fromkeys(
        ("freeze", "unfreeze", "seal", "unseal", "splits"), "environments.change_split"
    ),
    **dict.fromkeys(("scoring", "enabled", "blind", "privacy"), "environments.change_environment"),
    "delete": "environments.delete_split",
    "import": "environments.add_task",
}
"""Permissions that an action takes, and so its undo; all others take that to change tasks."""


@dataclass(frozen=True, slots=True)
class ActionChange:
    """What an action changed in one task, for its page."""

    revision: TaskRevision
    name: str
    before: str
    after: str


class ActionKindFilter(ChipFilter):
    title = "action"
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return list(CurationAction.KINDS)

    def queryset(
        self, request: HttpRequest, queryset: QuerySet[CurationAction]
    ) -> QuerySet[CurationAction]:
        return queryset.filter(kind=self.value()) if self.value() else queryset


@admin.register(CurationAction)
class ActivityAdmin(ReadOnlyAdmin):
    page_template = "curation/action.html"
    page_parameters = ("after",)
    to_environment = "environment"
    list_display = ("when", "what", "tasks", "environment_", "who", "reason_", "state")
    list_display_links = ("what",)
    list_filter = (EnvironmentFilter, ActionKindFilter)
    list_select_related = ("environment", "undone_by")
    search_fields = ("author", "title", "reason")
    search_help_text = "Part of who did it, what was done, or the reason"
    empty = (
        "Nothing yet. Every bulk action, edit, import, freeze and switch-off will be listed here, "
        "and can be undone."
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[CurationAction]:
        """Return the actions, without those that may be about what is hidden from the person."""
        rows: QuerySet[CurationAction] = super().get_queryset(request)
        viewer = viewer_of(request.user)
        if not viewer.hides_anything:
            return rows
        return rows.exclude(environment=None).exclude(
            environment__in=set(viewer.sealed_splits.values())
        )

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return request.user.has_perm("environments.view_task")

    def page(self, request: HttpRequest, row: CurationAction) -> dict[str, Any]:
        revisions = TaskRevision.objects.filter(
            change=row.token, pk__gt=id_asked(request, "after") or 0
        )
        rows = list(revisions.order_by("pk").defer("before", "after")[: PAGE_REVISIONS + 1])
        undone_by: CurationAction | None = getattr(row, "undone_by", None)
        unchanged_rows = (
            left_alone(row, undone_by)
            if undone_by and undone_by.kind == "undo"
            else TaskRevision.objects.none()
        )
        return {
            "changes": _changes(rows[:PAGE_REVISIONS]),
            "more": rows[PAGE_REVISIONS - 1].pk if len(rows) > PAGE_REVISIONS else None,
            "undone_by": undone_by,
            "left_alone": _changes(unchanged_rows.defer("before", "after")[:PAGE_REVISIONS]),
            "settings": _settings(row),
            "may_undo": may_undo(request, row) and undone_by is None and row.stage == "done",
        }

    def get_urls(self) -> list[URLPattern]:
        undo = self.admin_site.admin_view(self.undo)
        return [
            path("<id:pk>/undo/", undo, name="environments_curationaction_undo"),
            *super().get_urls(),
        ]

    def undo(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Preview the undo of an action; a POST does it."""
        row = get_object_or_404(self.get_queryset(request), pk=pk)
        if not self.has_view_permission(request) or not may_undo(request, row):
            raise PermissionDenied
        page = Confirmation(
            title="Undo",
            action=Undo(row.pk, request.POST.get("reason", "").strip()[:2000]),
            submit="Undo",
            back=(
                reverse("admin:environments_curationaction_change", args=[row.pk]),
                "Back to the action",
            ),
            form=ReasonForm(),
            is_whole=True,
            template="curation/action_undo.html",
            context={"original": row},
        )
        return confirmation(
            request, page, self.page_context(request), is_confirmed=request.method == "POST"
        )

    @admin.display(description="when")
    def when(self, row: CurationAction) -> SafeString:
        return formats.moment(row.created)

    @admin.display(description="what")
    def what(self, row: CurationAction) -> str:
        return row.title or f"{row.get_kind_display()} …"

    @admin.display(description="tasks")
    def tasks(self, row: CurationAction) -> SafeString:
        return format_html(
            '<span class="number">{}</span>', f"{row.changed:,}" if row.changed else ""
        )

    @admin.display(description="environment")
    def environment_(self, row: CurationAction) -> str:
        return row.environment.name if row.environment else "several"

    @admin.display(description="who")
    def who(self, row: CurationAction) -> str:
        return row.author

    @admin.display(description="reason")
    def reason_(self, row: CurationAction) -> str:
        return row.reason[:120]

    @admin.display(description="")
    def state(self, row: CurationAction) -> str:
        if row.stage != "done":
            return "not finished"
        return "undone" if hasattr(row, "undone_by") else ""


def may_undo(request: HttpRequest, row: CurationAction) -> bool:
    """Return whether the person may do, and so undo, such an action."""
    if row.kind in ("seal", "unseal") and not request.user.has_perm(SEE_HIDDEN):
        return False
    return request.user.has_perm(_BY_KIND.get(row.kind, "environments.change_task"))


def _changes(revisions: Sequence[TaskRevision] | QuerySet[TaskRevision]) -> list[ActionChange]:
    rows = list(revisions)
    names = task_names([row.task_id for row in rows])
    ids = [row.pk for row in rows if row.successor_id is None]
    texts = {
        pk: texts
        for pk, *texts in TaskRevision.objects.filter(pk__in=ids).values_list(
            "pk", "before", "after"
        )
    }
    return [
        ActionChange(
            row,
            names[row.task_id],
            *(_words(object_of(text)) for text in texts.get(row.pk, ("", ""))),
        )
        for row in rows
    ]


def _words(values: dict[str, Any]) -> str:
    """Return the labels of a task in a few words."""
    if "tags" in values:
        return ", ".join(values["tags"]) or "no tags"
    if "splits" in values:
        return ", ".join(values["splits"]) or "no split"
    if "state" in values:
        return (
            f"{values['state']}: {values['reason']}"
            if values.get("reason")
            else str(values["state"])
        )
    return ""


def _settings(row: CurationAction) -> list[tuple[str, Any, Any]]:
    """Return the settings that the action changed, each with its values before and after."""
    before, after = object_of(row.before), object_of(row.after)
    names = [name for name in after if name in before and before[name] != after[name]]
    return [
        (name.removeprefix("is_").replace("_", " "), before[name], after[name]) for name in names
    ]
