"""Fixtures for tests of what is recorded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_django import DjangoDbBlocker, Settings

from tests.conftest import empty_database


@pytest.fixture
def no_follower(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recorder without the thread that makes rollups: the test calls `catch_up` itself."""
    monkeypatch.setattr("episodes.rollups.follower.Follower.start", lambda follower: None)


@pytest.fixture
def keys(settings: Settings) -> None:
    """Configure two keys: lab:lab-key-1 and home:home-key-1."""
    settings.ORSWEB_API_KEYS = {"lab": "lab-key-1", "home": "home-key-1"}


@pytest.fixture(scope="module")
def committed_rows(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Lets a fixture write rows for a whole file, whose tests are marked `django_db` and undo their
    own changes."""
    with django_db_blocker.unblock():
        yield
        empty_database()
