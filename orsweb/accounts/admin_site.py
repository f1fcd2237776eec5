"""The admin, which is open to staff and to everybody who has the permission to open it."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject
from unfold.sites import UnfoldAdminSite

from environments.access.permissions import may_open_admin


class AdminSite(UnfoldAdminSite):  # type: ignore[misc]  # unfold has no types
    def has_permission(self, request: HttpRequest) -> bool:
        return may_open_admin(request.user)

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> Any:
        """Return the models that the person may see, which are looked up when a page shows them: few do."""
        return SimpleLazyObject(lambda: super(AdminSite, self).get_app_list(request, app_label))

    def get_urls(self) -> list[Any]:
        """Return the addresses without the one that redirects to the page of any row.

        No row has such a page, and its answer would say which rows exist that are hidden from the person.
        """
        return [one for one in super().get_urls() if getattr(one, "name", "") != "view_on_site"]
