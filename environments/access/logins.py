"""Who is logged in by a browser's session now, for sockets and streams, which outlive the request that opened them."""

from __future__ import annotations

import math
import time
from typing import Any

from django.contrib.auth import get_user
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.sessions.backends.base import SessionBase
from django.http import HttpRequest


def logged_in(session: SessionBase) -> User | AnonymousUser:
    """Return the account of a session, both read again. Nobody after a logout, a new password or a deactivation."""
    stored: Any = session.__class__
    request = HttpRequest()
    request.session = stored(session.session_key)
    return get_user(request)


RECENT_SECONDS = 1.0
_recent: dict[str, tuple[float, User | AnonymousUser]] = {}


def recently_logged_in(session: SessionBase) -> User | AnonymousUser:
    """Return what `logged_in` returned for the session at most RECENT_SECONDS ago.

    A person may have hundreds of streams open, which all ask.
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
