"""Admin of suites: their list, and deleting one with all of its versions. The pages of the
dashboard publish them."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Max, Model, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin

from environments import security_log
from environments.access.privacy import viewer_of
from environments.admin import ReadOnlyAdmin
from environments.display import formats
from episodes.models import Study, Suite


class SuiteAdmin(ReadOnlyAdmin):
    list_display = ("link", "versions_count", "author", "when")
    list_display_links = None
    ordering = ("name",)
    empty = "No suites yet. Curators publish them on the page Suites."

    def get_queryset(self, request: HttpRequest) -> QuerySet[Suite]:
        return Suite.objects.seen_by(viewer_of(request.user)).annotate(
            latest=Max("versions__number")
        )

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        if self.has_delete_permission(request):
            return (*self.list_display, "removal")
        return self.list_display

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return bool(ModelAdmin.has_delete_permission(self, request, obj))

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Return what goes, in words, because a version may have thousands of tasks; and the
        studies of the suites, which protect them."""
        words = [
            f"{suite}, with all of its versions: scores that were published can't be looked up any "
            "more"
            for suite in objs
        ]
        studies = Study.objects.filter(member__version__suite__in=objs).order_by("name")
        return words, {"suites": len(words)}, set(), [f"study {study.name}" for study in studies]

    def delete_model(self, request: HttpRequest, obj: Suite) -> None:
        name = obj.name
        super().delete_model(request, obj)
        security_log.note("deleted", f"suite {name}")

    @admin.display(description="suite")
    def link(self, suite: Suite) -> SafeString:
        return format_html('<a href="{}">{}</a>', reverse("suite", args=[suite.name]), suite.name)

    @admin.display(description="latest version")
    def versions_count(self, suite: Any) -> str:
        return f"v{suite.latest}"

    @admin.display(description="created")
    def when(self, suite: Suite) -> SafeString:
        return formats.moment(suite.created)

    @admin.display(description="")
    def removal(self, suite: Suite) -> SafeString:
        return format_html(
            '<a href="{}">Delete</a>', reverse("admin:episodes_suite_delete", args=[suite.pk])
        )


admin.site.register(Suite, SuiteAdmin)
