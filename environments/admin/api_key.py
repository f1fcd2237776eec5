"""Admin of API keys: their list, and creating, changing and revoking them.

People with the permission *Can change API key* see and revoke all keys, others only their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.models import ADDITION, CHANGE, DELETION
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_POST

from environments import conf
from environments.access.permissions import CHANGE_KEYS
from environments.access.privacy import hidden_names, viewer_of
from environments.admin.api_key_forms import ChangedKeyForm, NewKeyForm, QuotasForm, scopes_that
from environments.admin.base import ReadOnlyAdmin, author_of, note
from environments.filtering.addresses import takes
from environments.keys.keyring import ring
from environments.keys.quota_rows import quota_lines
from environments.keys.stored_keys import change_key, facts_of, make_key, revoke_key, status_of
from environments.models import ApiKey


@admin.register(ApiKey)
class ApiKeyAdmin(ReadOnlyAdmin):
    page_template = "environments/api_key.html"
    list_select_related = ("owner",)
    empty = (
        "No API keys. People who may change API keys see all of the database here, others see "
        "their own. Those of ORSWEB_API_KEYS are not listed."
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiKey]:
        rows: QuerySet[ApiKey] = super().get_queryset(request)
        return rows if request.user.has_perm(CHANGE_KEYS) else rows.filter(owner=request.user.pk)

    def get_list_display(self, request: HttpRequest) -> tuple[Any, ...]:
        unseen = hidden_names(viewer_of(request.user))

        @admin.display(description="may")
        def may(row: ApiKey) -> str:
            """Return its scopes, and what it is limited to."""
            facts = facts_of(row, unseen)
            limits = [
                f"{name} {facts[name]}"
                for name in ("environments", "splits", "run")
                if getattr(row, name)
            ]
            return "; ".join([facts["scopes"], *limits])

        return ("name", "key", "status", may, "owner", "used")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("environments.add_apikey")

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return any(
            request.user.has_perm(f"environments.{verb}_apikey")
            for verb in ("view", "add", "change")
        )

    def get_urls(self) -> list[URLPattern]:
        revoke: Callable[..., HttpResponse] = self.admin_site.admin_view(self.revoke)
        edit: Callable[..., HttpResponse] = self.admin_site.admin_view(require_POST(self.edit))
        quotas: Callable[..., HttpResponse] = self.admin_site.admin_view(require_POST(self.quotas))
        return [
            path("<id:pk>/revoke/", revoke, name="environments_apikey_revoke"),
            path("<id:pk>/edit/", edit, name="environments_apikey_edit"),
            path("<id:pk>/quotas/", quotas, name="environments_apikey_quotas"),
            *super().get_urls(),
        ]

    @sensitive_variables("text")
    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the form, or create the key and show it: on this page only, never in a message or
        session."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        form = NewKeyForm(request.user, request.POST if request.method == "POST" else None)
        if form.is_valid():
            try:
                row, text = make_key(**form.values())
            except ValidationError as error:
                form.add_error(None, error.messages)
        if not form.is_valid():
            status, template = 400 if form.is_bound else 200, "environments/api_key_form.html"
            return self._page(request, template, "Add API key", status=status, form=form)
        note(request.user.pk, row, f"Made with the scopes {', '.join(row.scopes)}.", ADDITION)
        response = self._page(
            request, "environments/api_key.html", row.name, text=text, **self.page(request, row)
        )
        response.headers["Cache-Control"] = "no-store"
        return response

    @takes()
    def revoke(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Ask whether to revoke a key; a POST with `confirm` does it."""
        row = get_object_or_404(self.get_queryset(request), pk=pk)
        if not self._may_revoke(request):
            raise PermissionDenied
        if row.revoked is None and not (request.method == "POST" and "confirm" in request.POST):
            return self._page(
                request, "environments/api_key_revoke.html", f"Revoke {row.name!r}?", original=row
            )
        if request.method == "POST" and revoke_key(row, author_of(request)):
            note(request.user.pk, row, "Revoked.", DELETION)
            messages.success(request, f"Revoked {row.name!r}. Its sessions end within a second.")
        return HttpResponseRedirect(reverse("admin:environments_apikey_change", args=[pk]))

    def edit(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Change what a key may do, its name or its expiry, or show the page with what is wrong."""
        row = self._changeable(request, pk)
        return self._change(request, row, ChangedKeyForm(request.user, row, request.POST), "form")

    def quotas(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Change the quotas of a key, or show the page with what is wrong."""
        row = self._changeable(request, pk)
        return self._change(request, row, QuotasForm(request.POST), "quotas_form")

    def _changeable(self, request: HttpRequest, pk: int) -> ApiKey:
        ring.note_uses()  # a key that was used a moment ago keeps its name, too
        row = get_object_or_404(self.get_queryset(request), pk=pk)
        if not self._may_change(request, row):
            raise PermissionDenied
        return row

    def _change(
        self, request: HttpRequest, row: ApiKey, form: ChangedKeyForm | QuotasForm, form_name: str
    ) -> HttpResponse:
        name = row.name
        if form.is_valid():
            try:
                changes = change_key(row, **form.values())
            except ValidationError as error:
                form.add_error(None, error.messages)
        if not form.is_valid():
            row.refresh_from_db()
            context = {**self.page(request, row), form_name: form}
            return self._page(request, "environments/api_key.html", name, status=400, **context)
        if changes:
            note(request.user.pk, row, f"Changed {changes}.", CHANGE)
            messages.success(request, f"Changed {row.name!r}. It is in force within a second.")
        return HttpResponseRedirect(reverse("admin:environments_apikey_change", args=[row.pk]))

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show what was changed, to people from whom no environment is hidden, because changes may
        name any."""
        if viewer_of(request.user):
            raise PermissionDenied
        answer: HttpResponse = super().history_view(request, object_id, extra_context)
        return answer

    def page(self, request: HttpRequest, row: ApiKey) -> dict[str, Any]:
        values = facts_of(row, hidden_names(viewer_of(request.user)))
        names = [name for name in values if name not in ("name", "quotas")]
        facts = {name.capitalize(): values[name] for name in names}
        if row.revoked:
            facts["Revoked"] = f"{row.revoked:%Y-%m-%d %H:%M} UTC by {row.revoked_by}"
        may_revoke = row.revoked is None and self._may_revoke(request)
        return {
            "original": row,
            "facts": facts,
            "quotas": quota_lines(row.quotas, ring.usage_of(row.name)),
            "quotas_form": QuotasForm(quotas=row.quotas),
            "form": ChangedKeyForm(request.user, row),
            "may_change": self._may_change(request, row),
            "holds_more": may_revoke and self._holds_more(request, row),
            "may_revoke": may_revoke,
            "needs_keys": conf.has_keys(),
        }

    def _may_change(self, request: HttpRequest, row: ApiKey) -> bool:
        """Return whether the person may change the key: who may only add keys can't raise the
        quotas of their own."""
        is_allowed = row.revoked is None and request.user.has_perm(CHANGE_KEYS)
        return is_allowed and not self._holds_more(request, row)

    def _holds_more(self, request: HttpRequest, row: ApiKey) -> bool:
        """Return whether the key names an environment hidden from the person, or is another's and
        may do more."""
        unseen = hidden_names(viewer_of(request.user))
        if any(name.lower() in unseen for name in row.environments):
            return True
        is_own = row.owner_id is not None and row.owner_id == request.user.pk
        return not is_own and not set(row.scopes) <= set(scopes_that(request.user))

    def _may_revoke(self, request: HttpRequest) -> bool:
        return request.user.has_perm(CHANGE_KEYS) or self.has_add_permission(request)

    def _page(
        self, request: HttpRequest, template: str, title: str, *, status: int = 200, **context: Any
    ) -> TemplateResponse:
        variables = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "is_fullwidth": "1",
            "title": title,
        }
        return TemplateResponse(request, template, {**variables, **context}, status=status)

    @admin.display(description="key")
    def key(self, row: ApiKey) -> str:
        return f"{row.hint}…"

    @admin.display(description="status")
    def status(self, row: ApiKey) -> str:
        return status_of(row)

    @admin.display(description="last used")
    def used(self, row: ApiKey) -> str:
        return facts_of(row)["last used"]
