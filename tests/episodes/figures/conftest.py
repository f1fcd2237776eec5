"""Fixtures for tests of curves."""

from __future__ import annotations

import pytest

from episodes.figures import summary_cover as covers


@pytest.fixture
def blocks_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scope with a full block is drawn from blocks."""
    monkeypatch.setattr("episodes.figures.curves.zoomed_range.MAX_RAW_ENDINGS", 0)
    monkeypatch.setattr(covers, "MAX_RAW_ENDINGS", 0)
    monkeypatch.setattr(covers, "MIN_RAW", 0)
