"""The permission that each page requires: the one place where pages and permissions meet.

`access.py` checks it before a view runs, links to pages that a visitor may not open are left out
(`orsweb/templatetags/frame.py`), and the page of an error 403 names what is missing
(`orsweb/pages/error_pages.py`). Pages of the admin check the permissions of what they show; here
they only need the one to open it.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.urls import Resolver404, resolve

from environments.access.permissions import (
    OPEN_ADMIN,
    SAVE_VIEWS,
    SEE_OPERATIONS,
    SEE_PAGES,
    may_open_admin,
    read_permissions,
)
from environments.features import features

PERMISSIONS = {
    **dict.fromkeys(("login", "logout", "password", "password_changed"), ""),
    **dict.fromkeys(("save_view", "delete_view"), SAVE_VIEWS),
    "operations": SEE_OPERATIONS,
    "load_demo": SEE_OPERATIONS,
}
"""Permission by the name of the page's URL, empty if it needs none; all others need that of their
feature, or SEE_PAGES."""
VERBS = {
    "add": "add",
    "delete": "delete",
    "changelist": "view",
    "change": "view",
    "history": "view",
}
"""Permission that a page of the admin requires, by the last part of its URL's name; pages of our
own change rows."""


def permission_for(name: str, method: str = "GET") -> str:
    """Return the permission for the page of that URL; empty if it needs none."""
    if name.startswith("admin:"):
        return OPEN_ADMIN
    rules = [PERMISSIONS, *(feature.permissions for feature in features())]
    if method not in ("GET", "HEAD", "OPTIONS"):
        rules = [*(feature.permissions_to_change for feature in features()), *rules]
    return next((permissions[name] for permissions in rules if name in permissions), SEE_PAGES)


def may_open(user: Any, permission: str) -> bool:
    """Return whether the person has a permission that `permission_for` returned."""
    if permission == OPEN_ADMIN:
        return may_open_admin(user)
    return not permission or bool(user.has_perm(permission))


def missing(request: HttpRequest) -> str:
    """Return the permission that the sender of a request lacks for its page; empty if none."""
    if request.user.is_superuser:
        return ""
    try:
        permission = permission_for(resolve(request.path_info).view_name, request.method or "GET")
    except Resolver404:
        permission = SEE_PAGES  # or people who may see nothing could find out which pages there are
    read_permissions(request.user)
    return "" if may_open(request.user, permission) else permission


def missing_in_admin(request: HttpRequest) -> str:
    """Return the permission that the sender of a refused request lacks for the page of the admin at
    its URL; empty for other pages."""
    match = request.resolver_match
    if match is None or "admin" not in match.namespaces:
        return ""
    app, _, rest = (match.url_name or "").partition("_")
    model, _, page = rest.partition("_")
    if page:
        for verb in (VERBS.get(page, "view"), "change", "add"):
            if not request.user.has_perm(permission := f"{app}.{verb}_{model}"):
                return permission
    return ""
