"""Reads and writes tasks as Parquet, with pyarrow: a column per key, a row per task. A null is an absent key.

Columns whose values Parquet cannot represent exactly are written as JSON text. The metadata of such a field says so,
and the column is read as JSON again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyarrow import types

from environments.transfer.cells import parsed
from environments.transfer.columns import Survey, declared, stray
from environments.transfer.rows import BadRow, FileRow, Refusal, Unit, Unreadable
from environments.transfer.writers import TaskText

READ_ROWS = 250
AS_JSON = (b"orsweb", b"json")
"""Entry in the metadata of a field that holds JSON text."""
GROUP_ROWS = 10_000
"""Rows in a row group. Rows that are not written yet are in memory."""
_TYPES = {"text": pa.string(), "integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}


class ParquetTable:
    """The rows of a Parquet file; see `rows.Rows`."""

    unit: Unit = "row"

    def __init__(self, path: Path, name: str, task_schema: Mapping[str, Any]) -> None:
        """Open the file. Raises: Unreadable."""
        self._name = name
        try:
            self._file = pq.ParquetFile(path)
        except (pa.ArrowException, OSError) as error:
            raise Unreadable(f"{name} is cut off, damaged or not a Parquet file: {_first_line(error)}.") from error
        self.done, self.total = 0, self._file.metadata.num_rows
        schema = self._file.schema_arrow
        self._json = [field.name for field in schema if (field.metadata or {}).get(AS_JSON[0]) == AS_JSON[1]]
        if wrong := stray(schema.names, declared(task_schema)):
            raise Unreadable(f"{name} {wrong}.")
        for field in schema:
            if not _has_json_form(field.type):
                raise Unreadable(
                    f"{name}: column {field.name!r} holds {field.type}, which has no JSON form; use text or numbers."
                )

    def __iter__(self) -> Iterator[FileRow | Refusal]:
        try:
            for batch in self._file.iter_batches(batch_size=READ_ROWS):
                for value in batch.to_pylist():
                    self.done += 1
                    yield self._row(value)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise Unreadable(f"{self._name} is damaged after row {self.done}: {_first_line(error)}.") from error

    def _row(self, value: dict[str, Any]) -> FileRow | Refusal:
        present = {key: item for key, item in value.items() if item is not None}
        try:
            return FileRow(self.done, present | {key: parsed(present[key]) for key in self._json if key in present})
        except BadRow as error:
            return Refusal(self.done, str(error))


def _has_json_form(kind: pa.DataType) -> bool:
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _has_json_form(kind.value_type)
    if types.is_dictionary(kind):
        return _has_json_form(kind.value_type)
    if types.is_struct(kind):
        return all(_has_json_form(kind.field(n).type) for n in range(kind.num_fields))
    plain = (types.is_boolean, types.is_integer, types.is_floating, types.is_string, types.is_large_string)
    return types.is_null(kind) or types.is_string_view(kind) or any(is_kind(kind) for is_kind in plain)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


class ParquetWriter:
    """Writes a Parquet file; see `writers.TaskFileWriter`."""

    def __init__(self, survey: Survey) -> None:
        self._kinds = {column: survey.kind(column) for column in survey.kinds}
        self._schema = pa.schema([_field(column, kind) for column, kind in self._kinds.items()])
        self._sink = TakenFile()
        self._file = pq.ParquetWriter(pa.PythonFile(self._sink, mode="w"), self._schema)
        self._waiting: list[dict[str, Any]] = []

    def start(self) -> bytes:
        return self._sink.taken()

    def write(self, tasks: Sequence[TaskText]) -> bytes:
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


class TakenFile:
    """A file-like object from which the bytes written since the last call of `taken` can be taken."""

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
