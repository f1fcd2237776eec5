"""What an export is written to: a path or standard output, and a file whose bytes are taken as they
come."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def write_whole(pieces: Iterable[bytes], output: str) -> None:
    """Write an export to a path, where a file appears only when complete, or to standard output
    (`-`).

    Raises: OSError.
    """
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


class TakenFile:
    """A file-like object from which the bytes written since the last call of `taken` can be
    taken."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, data: Any) -> int:
        self._pieces.append(bytes(data))
        return len(self._pieces[-1])

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True

    def taken(self) -> bytes:
        data, self._pieces = b"".join(self._pieces), []
        return data
