from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
import pytest_asyncio
from django.db import connections
from pytest_django import DjangoDbBlocker

from tests.conftest import empty_database
from tests.environments.agents.ors.serving import serving


@pytest.fixture(scope="module")
def db(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Replaces pytest-django's fixture: the test database for a whole file, whose tests share a
    server."""
    with django_db_blocker.unblock():
        yield
        empty_database()
        connections.close_all()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(db: None) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server with one environment, for a whole file."""
    async with serving("tests.envs:Echo") as running:
        yield running
