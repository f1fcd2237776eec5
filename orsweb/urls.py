"""Pages. Everything that is not a page's is the protocol's and never comes here (see asgi.py)."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

from orsweb import accounts

accounts.register(admin.site)

urlpatterns = [
    path("", include("episodes.dashboard.urls")),
    path("play/", include("episodes.playtest.urls")),
    path("accounts/", include("orsweb.logins")),
    path("api/", include("episodes.api.urls")),
    path("admin/", admin.site.urls),
]
handler400 = "orsweb.faults.bad_request"
handler403 = "orsweb.faults.forbidden"
handler404 = "orsweb.faults.not_found"
handler500 = "orsweb.faults.server_error"
