"""The applications `orsweb` and `admin`, without what slows a start down: the discovery of the
admin, which would load the pages, and imports of unused libraries."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from typing import Any

from django.apps import AppConfig
from django.contrib import admin
from django.contrib.admin.apps import SimpleAdminConfig
from django.contrib.admin.checks import check_admin_app, check_dependencies
from django.core import checks
from django.db import connection


@contextmanager
def absent(*names: str) -> Iterator[None]:
    """Make packages that are not loaded yet seem missing to libraries that import them if they
    can."""
    missing = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(missing))  # type: ignore[arg-type]  # None: importing it is an ImportError
    try:
        yield
    finally:
        for name in missing:
            del sys.modules[name]


@contextmanager
def without_postgresql() -> Iterator[None]:
    """Make PostgreSQL's driver seem missing on SQLite: rest_framework and unfold would load it for
    the fields of a few models, which takes 0.15 s and 20 MB."""
    with absent("psycopg", "psycopg2") if connection.vendor == "sqlite" else nullcontext():
        yield


class OrswebConfig(AppConfig):
    name = "orsweb"
    default = True

    def ready(self) -> None:
        from orsweb.accounts import security_signals  # needs the models, which are loaded by now

        security_signals.connect()
        # for highlighting, YAML and a test client, which are not used here
        with absent("pygments", "requests", "yaml"), without_postgresql():
            import rest_framework.compat  # noqa: F401


class LateAdminConfig(SimpleAdminConfig):
    """The admin is that of `orsweb/accounts/admin_site.py`.

    `orsweb/urls.py` discovers its models, as do the checks, which see only registered ones.
    """

    default_site = "orsweb.accounts.admin_site.AdminSite"

    def ready(self) -> None:
        checks.register(check_dependencies, checks.Tags.admin)
        checks.register(_check_discovered_admin, checks.Tags.admin)


def _check_discovered_admin(app_configs: Any, **options: Any) -> list[checks.CheckMessage]:
    admin.autodiscover()
    import_module("environments.curation.admin")
    return check_admin_app(app_configs, **options)
