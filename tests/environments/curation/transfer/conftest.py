"""Fixtures of the tests of imports and exports."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.environments.curation.transfer.files import Shelf


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)
