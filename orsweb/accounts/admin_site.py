"""The admin, which is open to staff and to everybody who has the permission to open it."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject
from unfold.sites import UnfoldAdminSite

from environments.access.permissions import may_open_admin


class AdminSite(UnfoldAdminSite):  # type: ignore[misc]  # unfold has no types
    def has_permission(self, request: HttpRequest) -> bool:
        return may_open_admin(request.user)

    def get_sidebar_list(self, request: HttpRequest) -> list[dict[str, Any]]:
        """Return the groups of the sidebar with the links that the person may open, for `unfold/helpers/app_list.html`.

        Each page makes it. The original does five times the work: it copies settings, and expects callables anywhere.
        """
        sidebar: Any = settings.UNFOLD["SIDEBAR"]
        found = []
        for group in sidebar["navigation"]:
            links = [(one, str(one["link"])) for one in group["items"] if one["permission"](request)]
            items = [{**one, "link": link, "active": request.path.startswith(link)} for one, link in links]
            found += [{"title": group.get("title"), "items": items}] if items else []
        return found

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> Any:
        """Return the models that the person may see, which are looked up when a page shows them: few do."""
        return SimpleLazyObject(lambda: super(AdminSite, self).get_app_list(request, app_label))

    def get_urls(self) -> list[Any]:
        """Return the addresses without the one that redirects to the page of any row.

        No row has such a page, and its answer would say which rows exist that are hidden from the person.
        """
        return [one for one in super().get_urls() if getattr(one, "name", "") != "view_on_site"]
