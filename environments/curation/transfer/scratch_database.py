"""Facts about every row of a file, stored in a temporary SQLite database.

A million hashes in a Python set would take over 100 MB; here they take the cache below. The file
has no name and is deleted with the connection, even when the process is killed.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from types import TracebackType
from typing import Any

_CACHE_KIB = 8 * 1024


class Scratch:
    """A set of hashes and ordered lists of pending work. A context manager, for use by one
    thread."""

    def __init__(self) -> None:
        self._file = sqlite3.connect("")  # a temporary file, not memory
        self._file.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        self._file.execute("PRAGMA journal_mode = OFF")
        self._file.execute("CREATE TABLE seen (hash BLOB PRIMARY KEY) WITHOUT ROWID")
        self._file.execute(
            "CREATE TABLE pending (id INTEGER PRIMARY KEY, list TEXT, size_bytes "
            "INTEGER, item TEXT)"
        )

    def __enter__(self) -> Scratch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._file.close()

    def is_new(self, digest: str, mark: bytes = b"") -> bool:
        """Add a hash and return whether it is new among the hashes with the same mark."""
        cursor = self._file.execute(
            "INSERT OR IGNORE INTO seen VALUES (?)", [mark + bytes.fromhex(digest)]
        )
        return cursor.rowcount == 1

    def put(self, to: str, item: Any, size_bytes: int = 0) -> None:
        """Append an item to a list. `size_bytes`: how much the work will write."""
        values = [to, size_bytes, json.dumps(item)]
        self._file.execute("INSERT INTO pending (list, size_bytes, item) VALUES (?, ?, ?)", values)

    def batches(self, of: str, limit: int, limit_bytes: int) -> Iterator[list[Any]]:
        """Yield the items of a list in order, in batches within both limits; a larger item is a
        batch of its own."""
        query = "SELECT size_bytes, item FROM pending WHERE list = ? ORDER BY id"
        batch: list[Any] = []
        batch_bytes = 0
        for size_bytes, item in self._file.execute(query, [of]):
            if batch and (len(batch) == limit or batch_bytes + size_bytes > limit_bytes):
                yield batch
                batch, batch_bytes = [], 0
            batch.append(json.loads(item))
            batch_bytes += size_bytes
        if batch:
            yield batch
