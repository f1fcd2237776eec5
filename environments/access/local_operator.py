"""The account as which everybody acts who reaches a server without API keys, which listens on this
machine only."""

from __future__ import annotations

from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User

OPERATOR = "local operator"
"""User name of the account that acts when the server has no accounts; `orsweb/accounts/access.py`
logs it in.

No form accepts a user name with a space, so it cannot collide with a person's."""


def local_operator() -> User:
    """Return the account of the local operator, a superuser without a usable password. The first
    call creates it.

    That call is at the start of a server (`orsweb/server/lifespan.py`): on SQLite it would wait for
    other writers.
    """
    defaults = {"is_staff": True, "is_superuser": True, "password": make_password(None)}
    return User.objects.get_or_create(username=OPERATOR, defaults=defaults)[0]
