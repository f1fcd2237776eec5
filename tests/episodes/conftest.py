"""Fixtures for tests of what is recorded."""

from __future__ import annotations

import pytest


@pytest.fixture
def no_follower(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recorder without the thread that makes rollups: the test calls `catch_up` itself."""
    monkeypatch.setattr("episodes.rollups.follower.Follower.start", lambda follower: None)
