from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server import LiveServer


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    """A server for a whole file; tests that stop theirs start their own."""
    with LiveServer("tests.envs:Echo") as running:
        yield running
