"""Admin of environments: description, splits, tools, how returns are computed, and whether agents
may play them."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator

from environments.access.permissions import CHANGE_KEYS
from environments.access.privacy import viewer_of, who_sees
from environments.access.private_tag import private_tag
from environments.admin.base import MAX_SUMMARY_CHARACTERS, ReadOnlyAdmin
from environments.curation.admin.environment_counts import overview_of
from environments.curation.admin.environment_secrets import SecretForm, secrets_of
from environments.curation.admin.privacy import PrivacyForm
from environments.curation.admin.success_rule import ScoringForm, act
from environments.curation.environment_settings import is_overridden
from environments.display.card import plain, rendered
from environments.display.parts import indented, read_json, tools
from environments.display.schema_fields import fields_of
from environments.keys.stored_keys import keys_naming
from environments.models import Environment, Split
from environments.service import service_or_none


def summary_of(environment: Environment) -> str:
    """Return the environment's description as plain text, shortened."""
    return Truncator(plain(environment.description)).chars(MAX_SUMMARY_CHARACTERS)


def marks_of(environment: Environment) -> list[str]:
    """Return the marks that say what keeps agents from playing the environment; empty if nothing
    does."""
    marks = {
        "not hosted": not environment.is_hosted,
        "unavailable": bool(environment.unavailable),
        "disabled": not environment.is_enabled,
    }
    return [mark for mark, holds in marks.items() if holds]


@admin.register(Environment)
class EnvironmentAdmin(ReadOnlyAdmin):
    page_template = "curation/environment.html"
    to_environment = "pk"
    list_display = ("marked_name", "summary", "state", "class_path")
    ordering = ("position", "name")
    empty = "No environments yet. Host one:"
    empty_command = "serve module:Class"

    @admin.display(description="name")
    def marked_name(self, environment: Environment) -> str:
        tag = private_tag(environment)
        return (
            format_html('<span class="nowrap">{} {}</span>', environment.name, tag)
            if tag
            else environment.name
        )

    @admin.display(description="description")
    def summary(self, environment: Environment) -> str:
        return summary_of(environment)

    @admin.display(description="available")
    def state(self, environment: Environment) -> SafeString:
        marks = marks_of(environment)
        return format_html(
            '<span class="{}">{}</span>', "refused" if marks else "", ", ".join(marks) or "yes"
        )

    def page(self, request: HttpRequest, row: Environment) -> dict[str, Any]:
        schema = read_json(row.task_schema) if row.task_schema else None
        service = service_or_none()
        hosted_class = service.registry.find(row.name) if service else None
        return {
            "splits": list(Split.objects.existing().filter(environment=row)),
            "tools": tools(hosted_class.tools_json)
            if hosted_class and hosted_class.is_described
            else None,
            "card": rendered(row.card or row.description, title=row.name),
            "overview": overview_of(row, viewer_of(request.user)),
            "task_fields": fields_of(schema),
            "task_schema": indented(schema) if schema is not None else "",
            "marks": marks_of(row),
            "form": ScoringForm(row),
            "privacy": PrivacyForm(row),
            "naming_keys": keys_naming(row.name)
            if row.is_private and request.user.has_perm(CHANGE_KEYS)
            else [],
            "may_give_secrets": request.user.has_perm(CHANGE_KEYS),
            "secret_form": SecretForm(),
            **(secrets_of(row) if request.user.has_perm(CHANGE_KEYS) else {}),
            "who_sees": who_sees(row) if row.is_private else "",
            "is_overridden": is_overridden(row),
            "may_change": request.user.has_perm("environments.change_environment"),
        }

    def get_urls(self) -> list[URLPattern]:
        do = self.admin_site.admin_view(self.do)
        return [path("<id:pk>/do/", do, name="environments_environment_do"), *super().get_urls()]

    def do(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Do what a form of the page asks for; answers with the page if the form has errors."""
        row = self.get_queryset(request).filter(pk=pk).first()
        if not request.user.has_perm("environments.change_environment"):
            raise PermissionDenied
        if row is None:
            raise Http404(f"There is no environment {pk}.")
        wrong = act(request, row) if request.method == "POST" else {}
        if not wrong:
            return HttpResponseRedirect(reverse("admin:environments_environment_change", args=[pk]))
        variables = {"title": str(row), "original": row, **self.page(request, row), **wrong}
        context = self.page_context(request, **variables)
        return TemplateResponse(request, self.page_template, context, status=400)
