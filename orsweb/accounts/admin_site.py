"""The admin, which is open to staff and to everybody who has the permission to open it."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.admin.options import IS_POPUP_VAR, TO_FIELD_VAR
from django.contrib.admin.views.main import PAGE_VAR
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject
from unfold.sites import UnfoldAdminSite

from environments.access.permissions import may_open_admin
from environments.filtering.addresses import PARSED, takes

_LIST = "_changelist_filters"
"""The list from which a person came to a page of the admin."""
_PARAMETERS: dict[str, tuple[str, ...]] = {
    "changelist_view": (PARSED,),
    "add_view": (IS_POPUP_VAR, TO_FIELD_VAR, _LIST),
    "change_view": (IS_POPUP_VAR, TO_FIELD_VAR, _LIST),
    "delete_view": (IS_POPUP_VAR, TO_FIELD_VAR, _LIST),
    "history_view": (PAGE_VAR,),
    "autocomplete_view": ("app_label", "model_name", "field_name", "term", "page"),
}
"""Parameters of views that Django or unfold has, by their names; all others have none."""


class AdminSite(UnfoldAdminSite):  # type: ignore[misc]  # unfold has no types
    def has_permission(self, request: HttpRequest) -> bool:
        return may_open_admin(request.user)

    def admin_view(self, view: Any, cacheable: bool = False) -> Any:
        """Return the view for people who may open the admin, which refuses unknown parameters.

        Views with parameters of their own name them with `takes`, pages of rows in
        `page_parameters`.
        """
        names = _PARAMETERS.get(view.__name__, ())
        if view.__name__ == "change_view":
            names += getattr(view.__self__, "page_parameters", ())
        if not hasattr(view, "takes"):
            view = takes(*names)(view)
        return super().admin_view(view, cacheable)

    def get_sidebar_list(self, request: HttpRequest) -> list[dict[str, Any]]:
        """Return the groups of the menu with the links that the person may open, for
        `admin/pages.html`.

        Each page builds it. The original does five times the work: it copies settings, and expects
        callables anywhere.
        """
        menu: Any = settings.UNFOLD["SIDEBAR"]
        groups = []
        for group in menu["navigation"](request):
            items = []
            for item in group["items"]:
                if item["permission"](request):
                    link = str(item["link"])
                    is_active = request.path.startswith(link)
                    items.append({**item, "link": link, "active": is_active})
            if items:
                groups.append({"title": group.get("title"), "items": items})
        return groups

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> Any:
        """Return the models that the person may see, which are looked up when a page shows them:
        few do."""
        return SimpleLazyObject(lambda: super(AdminSite, self).get_app_list(request, app_label))

    def get_urls(self) -> list[Any]:
        """Return the addresses without the one that redirects to the page of any row, as no row has
        such a page and its answer would tell which hidden rows exist, and without unfold's search:
        the palette finds names."""
        left_out = ("view_on_site", "search")
        return [url for url in super().get_urls() if getattr(url, "name", "") not in left_out]
