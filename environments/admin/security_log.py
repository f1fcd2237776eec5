"""Admin of the security log: a list to search and filter, which nobody can change. It never counts
its table."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from environments.admin.base import ChipFilter, ReadOnlyAdmin
from environments.display import formats
from environments.models import SecurityEvent
from environments.security_log import FAILURES, KINDS

PERIODS = {
    "hour": ("the last hour", 1),
    "day": ("the last 24 hours", 24),
    "week": ("the last 7 days", 24 * 7),
}
"""Choices of the period with their hours."""


class SecurityKindFilter(ChipFilter):
    title = "event"
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("failures", "All refusals"), *KINDS.items()]

    def queryset(
        self, request: HttpRequest, queryset: QuerySet[SecurityEvent]
    ) -> QuerySet[SecurityEvent]:
        kind = self.value()
        if kind == "failures":
            return queryset.filter(kind__in=FAILURES)
        return queryset.filter(kind=kind) if kind else queryset


class PeriodFilter(ChipFilter):
    title = "period"
    parameter_name = "period"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(key, name) for key, (name, _) in PERIODS.items()]

    def queryset(
        self, request: HttpRequest, queryset: QuerySet[SecurityEvent]
    ) -> QuerySet[SecurityEvent]:
        if not (period := self.value()):
            return queryset
        return queryset.filter(at__gte=timezone.now() - timedelta(hours=PERIODS[period][1]))


@admin.register(SecurityEvent)
class SecurityEventAdmin(ReadOnlyAdmin):
    is_about_all = True
    list_display = ("when", "event", "who_", "address_", "about", "times")
    list_display_links = None
    list_filter = (SecurityKindFilter, PeriodFilter)
    search_fields = ("who", "address", "what", "detail")
    search_help_text = "Part of an account, key, address, or of what it was about"
    empty = (
        "Nothing yet. Logins, keys, changes of permissions, exports, deletions and refused "
        "requests appear here."
    )

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        """Return the order: within a period that of time, whose index begins there, instead of that
        of all entries."""
        has_period = request.GET.get(PeriodFilter.parameter_name) in PERIODS
        return ("-at", "-pk") if has_period else ("-pk",)

    @admin.display(description="when")
    def when(self, row: SecurityEvent) -> SafeString:
        return formats.moment(row.at)

    @admin.display(description="event")
    def event(self, row: SecurityEvent) -> SafeString:
        ending, mark = ("failure", "✕") if row.kind in FAILURES else ("", "")
        html = '<span class="ending nowrap" data-ending="{}"><b>{}</b> {}</span>'
        return format_html(html, ending, mark, KINDS.get(row.kind, row.kind))

    @admin.display(description="who")
    def who_(self, row: SecurityEvent) -> str:
        return row.who

    @admin.display(description="address")
    def address_(self, row: SecurityEvent) -> SafeString:
        return format_html('<span class="nowrap">{}</span>', row.address)

    @admin.display(description="what")
    def about(self, row: SecurityEvent) -> str:
        detail = row.detail
        match = re.fullmatch(r"action (\d{1,18})", detail)
        if row.kind == "curated" and match:
            page = reverse("admin:environments_curationaction_change", args=[match[1]])
            detail = format_html('<a href="{}">{}</a>', page, detail)
        texts = [text for text in (row.what.rstrip("."), detail) if text]
        return format_html_join(": ", "{}", ((text,) for text in texts))

    @admin.display(description="times")
    def times(self, row: SecurityEvent) -> SafeString:
        return format_html('<span class="number">{}</span>', f"{row.count:,}")
