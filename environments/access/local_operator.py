"""The account of everybody who uses a server without API keys, which listens on this machine only."""

from __future__ import annotations

from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User

OPERATOR = "local operator"
"""Its user name. No form accepts one with a space, so it cannot collide with a person's.
`orsweb/accounts/access.py` logs it in."""


def local_operator() -> User:
    """Return the account of the local operator, a superuser without a usable password. The first
    call creates it.

    That call is at the start of a server (`orsweb/server/lifespan.py`): on SQLite it would wait for
    other writers.
    """
    defaults = {"is_staff": True, "is_superuser": True, "password": make_password(None)}
    return User.objects.get_or_create(username=OPERATOR, defaults=defaults)[0]
