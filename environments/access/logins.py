"""Who is logged in by a browser's session now, for sockets and streams, which outlive the request that opened them."""

from __future__ import annotations

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
