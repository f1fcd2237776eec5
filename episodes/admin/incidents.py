"""Admin pages of incidents: failures of environment code, which are read-only."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from environments.admin import ChipFilter, EnvironmentFilter, ReadOnlyAdmin
from environments.display import formats
from episodes.models import Episode, Incident


class IncidentFilter(ChipFilter):
    title = "kind"
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return list(Incident.KINDS)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Incident]) -> QuerySet[Incident]:
        return queryset.filter(kind=self.value()) if self.value() else queryset


@admin.register(Incident)
class IncidentAdmin(ReadOnlyAdmin):
    page_template = "episodes/admin_incident.html"
    is_about_all = True  # whatever else ran is named where the cause is not certain
    list_display = ("what", "where", "call", "times", "duration", "when")
    list_filter = (EnvironmentFilter, IncidentFilter)
    list_select_related = ("environment",)
    empty = (
        "No incidents. One is noted when code of an environment raises an exception, kills the "
        "server, holds it for over a second, or ends its worker process."
    )

    def page(self, request: HttpRequest, row: Incident) -> dict[str, Any]:
        return {"episode": Episode.objects.filter(pk=row.episode).first() if row.episode else None}

    @admin.display(description="incident")
    def what(self, incident: Incident) -> str:
        return str(incident)

    @admin.display(description="environment")
    def where(self, incident: Incident) -> str:
        name = incident.environment.name if incident.environment else "unknown"
        is_certain = incident.is_certain or incident.kind == "lost" or not incident.environment
        return name if is_certain else f"{name} (not certain)"

    @admin.display(description="times")
    def times(self, incident: Incident) -> SafeString:
        return format_html('<span class="number">{}</span>', f"{incident.count:,}")

    @admin.display(description="held for")
    def duration(self, incident: Incident) -> SafeString:
        text = f"{incident.seconds:g} s" if incident.seconds else ""
        return format_html('<span class="number">{}</span>', text)

    @admin.display(description="happened")
    def when(self, incident: Incident) -> SafeString:
        return formats.moment(incident.happened)
