"""The number of changes to descriptions of runs, by which the recorder knows that it has to read runs again.

A server that has its database alone changes descriptions only in the process that also records. Its recorder compares
one number per batch and reads a run again only after a change, which costs an episode nothing. What other servers of a
database change is not counted here: `recording/referenced_rows.py` reads runs again after a while.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

_numbers: Iterator[int] = itertools.count(1)
_current = 0


def generation() -> int:
    """Return a number that differs from an earlier one if a description was committed in between."""
    return _current


def advance() -> None:
    """Note that a description was committed. Call it after the commit and before the trainer gets its answer."""
    global _current
    _current = next(_numbers)
