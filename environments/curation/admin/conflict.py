"""Admin of conflicts: tasks that people edited, took out or quarantined, and that their class
changed or dropped."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path, reverse

from environments.access.privacy import viewer_of
from environments.admin.base import EnvironmentFilter, ReadOnlyAdmin, note
from environments.curation.admin.confirmation import applied
from environments.curation.conflicts import keep_decision, open_conflicts, take_from_class
from environments.display.line_diff import diff
from environments.display.task_line import MAX_READ_CHARACTERS
from environments.models import SyncConflict
from environments.models.viewer import visible_splits
from environments.service import task_line

WORDS = {
    "edit": "edited it; the edited task is served",
    "removal": "took it out; it stays out",
    "quarantine": "quarantined it; it stays quarantined",
    "copies": "edited it; each copy of what they edited is quarantined",
}
"""What people did, and what holds until the conflict is settled."""


class ConflictEnvironmentFilter(EnvironmentFilter):
    column = "split__environment"


@admin.register(SyncConflict)
class ConflictAdmin(ReadOnlyAdmin):
    page_template = "curation/conflict.html"
    list_display = ("task", "people", "class_", "split", "created")
    list_filter = (ConflictEnvironmentFilter,)
    empty = (
        "No conflicts. They arise where a class changes or drops what people edited, took out or "
        "quarantined."
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[SyncConflict]:
        rows = open_conflicts().filter(visible_splits(viewer_of(request.user), "split__"))
        return rows.annotate(head=Left("former__spec", MAX_READ_CHARACTERS))

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return request.user.has_perm("environments.view_task")

    def page(self, request: HttpRequest, row: SyncConflict) -> dict[str, Any]:
        before = row.former.spec
        return {
            "title": f"Conflict in {row.split}",
            "words": self.people(row),
            "people": diff(before, row.kept.spec) if row.kept else None,
            "class_": diff(before, row.listed.spec) if row.listed else None,
            "may_settle": request.user.has_perm("environments.change_task"),
        }

    def get_urls(self) -> list[URLPattern]:
        settle = self.admin_site.admin_view(self.settle)
        return [
            path("<id:pk>/settle/", settle, name="environments_syncconflict_settle"),
            *super().get_urls(),
        ]

    def settle(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Settle a conflict as a POST says: `keep` what people did, or else take what the class
        lists."""
        row = get_object_or_404(self.get_queryset(request), pk=pk)
        if not request.user.has_perm("environments.change_task"):
            raise PermissionDenied
        if request.method == "POST":
            if "keep" not in request.POST:
                applied(request, partial(take_from_class, pk))
            elif outcome := applied(request, partial(keep_decision, pk)):
                note(request.user.pk, row.split, outcome.sentence)
        return HttpResponseRedirect(reverse("admin:environments_syncconflict_changelist"))

    @admin.display(description="task as the class had it")
    def task(self, row: SyncConflict) -> str:
        return task_line(row.split.environment, getattr(row, "head", ""))

    @admin.display(description="people")
    def people(self, row: SyncConflict) -> str:
        is_copy = (
            row.decision == "edit" and row.listed is not None and row.listed.state == "quarantined"
        )
        return WORDS["copies" if is_copy else row.decision]

    @admin.display(description="the class")
    def class_(self, row: SyncConflict) -> str:
        return f"changed it: task {row.listed_id}" if row.listed_id else "no longer lists it"
