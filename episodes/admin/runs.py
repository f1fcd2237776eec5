"""Admin pages of runs, which are read-only."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from environments.access.privacy import viewer_of
from environments.admin import ReadOnlyAdmin
from environments.display import formats
from episodes.browsing.task_lines import describe_tasks
from episodes.filtering.columns import with_list_columns
from episodes.models import Episode, Run


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    page_template = "episodes/admin_run.html"
    list_display = ("name", "model", "state", "episodes_count", "started")
    ordering = ("-pk",)
    search_fields = ("name", "model")
    empty = "No runs yet. Agents name a run with the header X-Run or the secret orsweb_run."

    def get_queryset(self, request: HttpRequest) -> QuerySet[Run]:
        """Return the runs with `count`, their number of episodes. It takes one scan of an index per
        listed run."""
        episodes = Episode.objects.filter(run=OuterRef("pk")).order_by().values("run")
        count = Subquery(episodes.annotate(n=Count("pk")).values("n"))
        rows = Run.objects.seen_by(viewer_of(request.user))
        return rows.annotate(count=Coalesce(count, 0)).order_by(*self.ordering)

    def page(self, request: HttpRequest, row: Run) -> dict[str, Any]:
        episodes = row.episodes.seen_by(viewer_of(request.user))
        latest = list(with_list_columns(episodes.order_by("-pk"))[:50])
        describe_tasks(latest)
        return {"episodes": latest}

    @admin.display(description="episodes")
    def episodes_count(self, run: Any) -> SafeString:
        return format_html('<span class="number">{}</span>', f"{run.count:,}")

    @admin.display(description="started")
    def started(self, run: Run) -> SafeString:
        return formats.moment(run.created)
