"""A server that strangers can reach, with one account: for browser tests of who may see what."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests import programs
from tests.server import LiveServer

PASSWORD = "correct horse"


@contextmanager
def with_account(environment: str, name: str) -> Iterator[LiveServer]:
    """Yield a server that has an account: a superuser with the password `PASSWORD`."""
    with LiveServer(environment, env={"ORSWEB_API_KEYS": "lab:0123456789"}) as running:
        account = {"DJANGO_SUPERUSER_USERNAME": name, "DJANGO_SUPERUSER_PASSWORD": PASSWORD}
        programs.run("createsuperuser", "--noinput", "--email", "a@b.example", env=running.env | account, check=True)
        yield running
