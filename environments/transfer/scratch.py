"""Scratch: what has to be remembered of every row of a file, in a temporary file of SQLite's own.

A million hashes in a Python set would be over 100 MB; here they take the cache below. The file has no name and goes
with the connection, also when the process is killed.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from types import TracebackType
from typing import Any

_CACHE_KIB = 8 * 1024


class Scratch:
    """A set of hashes and lists of pending work, in order. A context manager; for one thread."""

    def __init__(self) -> None:
        self._file = sqlite3.connect("")  # a file, not memory
        self._file.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        self._file.execute("PRAGMA journal_mode = OFF")
        self._file.execute("CREATE TABLE seen (hash BLOB PRIMARY KEY) WITHOUT ROWID")
        self._file.execute("CREATE TABLE pending (id INTEGER PRIMARY KEY, list TEXT, size_bytes INTEGER, item TEXT)")

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def is_new(self, digest: str, mark: bytes = b"") -> bool:
        """Whether the hash was not seen before, among those with the same mark; it is now."""
        added = self._file.execute("INSERT OR IGNORE INTO seen VALUES (?)", [mark + bytes.fromhex(digest)])
        return added.rowcount == 1

    def put(self, to: str, item: Any, size_bytes: int = 0) -> None:
        """`size_bytes`: what the work will write."""
        values = [to, size_bytes, json.dumps(item)]
        self._file.execute("INSERT INTO pending (list, size_bytes, item) VALUES (?, ?, ?)", values)

    def batches(self, of: str, limit: int, limit_bytes: int) -> Iterator[list[Any]]:
        """Everything that was put into a list, in order; more bytes than that only for one item alone."""
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
