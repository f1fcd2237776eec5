"""Parquet, written by pyarrow. Columns with values that Parquet could not give back exactly hold JSON text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from environments.transfer.columns import Survey
from environments.transfer.parquet_table import AS_JSON
from environments.transfer.writers import Text

GROUP_ROWS = 10_000
"""Rows of a row group; what is not written yet is in memory."""
_TYPES = {"text": pa.string(), "integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}


class ParquetWriter:
    def __init__(self, survey: Survey) -> None:
        self._kinds = {column: survey.kind(column) for column in survey.kinds}
        self._schema = pa.schema([_field(column, kind) for column, kind in self._kinds.items()])
        self._sink = Pieces()
        self._file = pq.ParquetWriter(pa.PythonFile(self._sink, mode="w"), self._schema)
        self._waiting: list[dict[str, Any]] = []

    def start(self) -> bytes:
        return self._sink.taken()

    def write(self, tasks: Sequence[Text]) -> bytes:
        self._waiting += [self._row(json.loads(task.text)) for task in tasks]
        if len(self._waiting) >= GROUP_ROWS:
            self._flush()
        return self._sink.taken()

    def end(self) -> bytes:
        self._flush()
        self._file.close()
        return self._sink.taken()

    def _flush(self) -> None:
        if self._waiting:
            self._file.write_table(pa.Table.from_pylist(self._waiting, schema=self._schema))
            self._waiting = []

    def _row(self, row: dict[str, Any]) -> dict[str, Any]:
        return {key: json.dumps(value) if self._kinds[key] == "json" else value for key, value in row.items()}


class Pieces:
    """A file that nobody keeps: what was written since the last look can be taken."""

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
        taken, self._pieces = b"".join(self._pieces), []
        return taken


def _field(column: str, kind: str) -> Any:
    return pa.field(column, _TYPES.get(kind, pa.string()), metadata=dict([AS_JSON]) if kind == "json" else None)
