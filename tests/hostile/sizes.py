"""How much the tests of this folder try: little within `make test`, and much with HOSTILE=long
(`make hostile`)."""

from __future__ import annotations

import os
from typing import TypeVar

IS_LONG = os.environ.get("HOSTILE") == "long"
Number = TypeVar("Number", int, float)


def size(short: Number, long: Number) -> Number:
    """Return the number for the form that runs."""
    return long if IS_LONG else short
