"""Fixtures of the tests of environments and tasks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db.backends.signals import connection_created


@pytest.fixture
def queries() -> Iterator[list[str]]:
    """Every query of connections opened from now on."""
    asked: list[str] = []

    def note(execute: Any, sql: str, *args: Any) -> Any:
        asked.append(sql)
        return execute(sql, *args)

    def attach(connection: Any, **_: Any) -> None:
        connection.execute_wrappers.append(note)

    connection_created.connect(attach)
    yield asked
    connection_created.disconnect(attach)
