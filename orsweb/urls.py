"""The URLs of the pages. All other paths belong to the protocol and do not get here (see asgi.py)."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

from orsweb.accounts import admin as accounts
from orsweb.operations.page import operations

admin.autodiscover()
accounts.register(admin.site)

urlpatterns = [
    path("", include("episodes.dashboard.urls")),
    path("play/", include("episodes.playtest.urls")),
    path("accounts/", include("orsweb.accounts.login")),
    path("operations/", operations, name="operations"),
    path("api/", include("episodes.api.urls")),
    path("admin/", admin.site.urls),
]
handler400 = "orsweb.pages.error_pages.bad_request"
handler403 = "orsweb.pages.error_pages.forbidden"
handler404 = "orsweb.pages.error_pages.not_found"
handler500 = "orsweb.pages.error_pages.server_error"
