"""Django's admin without the discovery at start, which would load the pages before the server listens."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.apps import SimpleAdminConfig
from django.contrib.admin.checks import check_admin_app, check_dependencies
from django.core import checks


class LateAdminConfig(SimpleAdminConfig):
    """`orsweb/urls.py` discovers the admin's models, as do the checks, which look at nothing that is not registered."""

    def ready(self) -> None:
        checks.register(check_dependencies, checks.Tags.admin)
        checks.register(_check_discovered_admin, checks.Tags.admin)


def _check_discovered_admin(app_configs: Any, **options: Any) -> list[checks.CheckMessage]:
    admin.autodiscover()
    return check_admin_app(app_configs, **options)
