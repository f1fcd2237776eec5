"""Who is logged in now, for sockets and streams, which outlive the request that opened them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from django.contrib.auth import SESSION_KEY, get_user
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.sessions.backends.base import SessionBase
from django.http import HttpRequest

from environments.access.privacy import viewer_of


def logged_in(session: SessionBase) -> User | AnonymousUser:
    """Return the account of a session, both read again: nobody after a logout, a new password or a
    deactivation."""
    store_class: Any = session.__class__
    request = HttpRequest()
    request.session = store_class(session.session_key)
    return get_user(request)


RECENT_SECONDS = 1.0
_recent: dict[str, tuple[float, User | AnonymousUser]] = {}


def recently_logged_in(session: SessionBase) -> User | AnonymousUser:
    """Return what `logged_in` returned for the session at most RECENT_SECONDS ago.

    A person may have hundreds of streams open, and each of them checks.
    """
    now = time.monotonic()
    checked_at, account = _recent.get(session.session_key or "", (-math.inf, AnonymousUser()))
    if now - checked_at <= RECENT_SECONDS:
        return account
    for key, (moment, _) in list(_recent.items()):
        if now - moment > RECENT_SECONDS:
            _recent.pop(key, None)
    account = logged_in(session)
    _recent[session.session_key or ""] = now, account
    return account


def rights_of(request: HttpRequest) -> Callable[[], bool]:
    """Return a function that says whether the visitor still has all rights that they have now, for
    a thread with a database. A visitor without a login is the local operator."""
    session, user = request.session, request.user
    rights, viewer = user.get_all_permissions(), viewer_of(user)

    def has_rights() -> bool:
        person = recently_logged_in(session)
        return person.get_all_permissions() >= rights and viewer_of(person).sees_all_of(viewer)

    return has_rights if SESSION_KEY in session else lambda: True
