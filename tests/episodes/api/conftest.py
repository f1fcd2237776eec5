from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_django import Settings


@pytest.fixture
def keys(settings: Settings) -> Iterator[None]:
    """Configure two keys: lab:lab-key-1 and home:home-key-1."""
    settings.ORSWEB_API_KEYS = {"lab": "lab-key-1", "home": "home-key-1"}
    yield
