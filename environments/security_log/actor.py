"""Who acts in the current context: a page's visitor, or the user who runs a command."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Actor:
    """Name of an account or a key, and the address from which a request came; a command has no
    address."""

    name: str
    address: str = ""


_current: ContextVar[Actor | None] = ContextVar("security_log_actor", default=None)


@contextmanager
def acting(name: str, address: str) -> Iterator[None]:
    """Note the events in the block under `name` and `address`."""
    token = _current.set(Actor(name, address))
    try:
        yield
    finally:
        _current.reset(token)


def current_actor() -> Actor:
    """Return who acts; outside of requests, the user of the operating system."""
    if actor := _current.get():
        return actor
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # an id without a name, as in a container
        user = f"user {os.getuid()}"
    return Actor(f"{user} (shell)")
