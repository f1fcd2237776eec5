"""The number of changes to descriptions of runs, by which the recorder knows that it has to read runs again.

There is one server per database, so descriptions change only in the process that also records. The recorder compares
one number per batch and reads a run again only after a change, which costs an episode nothing.
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
