"""Destination: where a command writes an export: standard output, or a file that is whole or not there."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path


def write_whole(pieces: Iterable[bytes], output: str) -> None:
    """`output`: a path, or `-` for standard output. Raises: OSError."""
    if output == "-":
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        return
    path = Path(output)
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as file:
            for piece in pieces:
                file.write(piece)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
