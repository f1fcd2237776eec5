"""The number of changes to descriptions of runs, by which the recorder knows that it has to read
runs again.

A server that has its database alone changes descriptions only in the process that also records. Its
recorder compares one number per batch and reads a run again only after a change, which costs an
episode nothing. Several servers of a database count in a sequence too, which each reads with what
it asks at the beginning of a transaction.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from django.db import connection

from environments import conf

SHARED = "SELECT last_value + is_called::int FROM episodes_runchanges"
"""A number that differs from an earlier one if any server has called `advance` in between."""

_numbers: Iterator[int] = itertools.count(1)
_current = 0


def changes() -> int:
    """Return a number that differs from an earlier one if this server committed a description in
    between."""
    return _current


def advance() -> None:
    """Note that a description was committed. Call it after the commit and before the trainer gets
    its answer."""
    global _current
    _current = next(_numbers)
    if conf.is_one_of_several():
        with connection.cursor() as cursor:
            cursor.execute("SELECT nextval('episodes_runchanges')")
