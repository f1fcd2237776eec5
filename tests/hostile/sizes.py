"""How much the tests of this folder try: little within `make test`, and much with HOSTILE=long (`make hostile`)."""

from __future__ import annotations

import os

IS_LONG = os.environ.get("HOSTILE") == "long"


def size(short: int, long: int) -> int:
    """Return the number for the form that runs."""
    return long if IS_LONG else short
