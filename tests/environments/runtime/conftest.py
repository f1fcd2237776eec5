from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.environments.runtime.staged import Staged


@pytest.fixture(autouse=True)
def stages() -> Any:
    Staged.events.clear()
    Staged.doors = {
        name: threading.Event() for name in ("constructor", "setup", "teardown", "work")
    }
    yield
    for door in Staged.doors.values():
        door.set()
