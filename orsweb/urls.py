"""The URLs of the pages. All other paths belong to the protocol (`asgi.py`)."""

from __future__ import annotations

from importlib import import_module

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path

from environments import conf
from environments.features import features
from orsweb.apps import without_postgresql
from orsweb.demo.load_page import load_demo
from orsweb.operations.page import operations

with without_postgresql():
    from orsweb.accounts import admin as accounts

admin.autodiscover()
import_module("environments.curation.admin")
for feature in features():
    if feature.admin:
        import_module(feature.admin)
accounts.register(admin.site)

pages: list[URLPattern | URLResolver] = [
    path("accounts/", include("orsweb.accounts.login")),
    path("operations/", operations, name="operations"),
    path("operations/demo/", load_demo, name="load_demo"),
    path("api/", include("episodes.urls.api")),
    path("admin/", admin.site.urls),
    # last: all of its patterns would be tried for each address above
    path("", include("episodes.urls.pages")),
]
prefix = conf.path_prefix()
# With FORCE_SCRIPT_NAME, which is made for this, Django adds the prefix only where it handles a
# request; but parts of pages are also rendered elsewhere, for the websockets of players.
urlpatterns = [path(f"{prefix[1:]}/", include(pages))] if prefix else pages
handler400 = "orsweb.pages.error_pages.bad_request"
handler403 = "orsweb.pages.error_pages.forbidden"
handler404 = "orsweb.pages.error_pages.not_found"
handler500 = "orsweb.pages.error_pages.server_error"
