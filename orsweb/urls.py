"""Pages. Everything that is not a page's is the protocol's and never comes here (see asgi.py)."""

from __future__ import annotations

from django.contrib import admin
from django.urls import path

from orsweb import accounts
from orsweb.views import home

accounts.register(admin.site)

urlpatterns = [
    path("", home, name="home"),
    path("admin/", admin.site.urls),
]
