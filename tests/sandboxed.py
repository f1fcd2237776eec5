"""The mark that skips tests that run programs, on machines without a sandbox."""

from __future__ import annotations

from pathlib import Path

import pytest

from environments.sandbox.bubblewrap import unavailable

needs_bubblewrap = pytest.mark.skipif(
    bool(unavailable({"python3": "python3"})), reason="needs bubblewrap"
)


def processes_with(argument: str) -> list[int]:
    """Return the ids of processes of this machine that were started with `argument`, in a sandbox
    or not."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:  # it has ended
            continue
        if argument.encode() in words and words[0].endswith(b"sleep"):
            found.append(int(path.parent.name))
    return found
