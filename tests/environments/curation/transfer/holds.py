"""Measures how long transactions hold SQLite's write lock, in CPU time of this thread."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection


@contextmanager
def measured_holds() -> Iterator[list[float]]:
    """Yield the seconds of each writing transaction of this thread's connection, and of single
    statements, in order.

    Without the collector, which takes a quarter of a second for all that a process of tests holds.
    """
    holds: list[float] = []
    began: list[float] = []
    connection.ensure_connection()
    commit = connection._commit

    def measure(execute: Any, sql: str, *args: Any) -> Any:
        start = time.thread_time()
        result = execute(sql, *args)
        if sql.startswith("BEGIN"):
            began[:] = [time.thread_time()]
        elif not connection.in_atomic_block and not sql.lstrip().startswith("SELECT"):
            holds.append(time.thread_time() - start)
        return result

    def measured_commit() -> None:
        commit()
        if began:
            holds.append(time.thread_time() - began.pop())

    with pytest.MonkeyPatch.context() as patch, connection.execute_wrapper(measure):
        patch.setattr(connection, "_commit", measured_commit)
        gc.disable()
        try:
            yield holds
        finally:
            gc.enable()
