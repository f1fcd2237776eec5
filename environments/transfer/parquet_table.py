"""Parquet, by pyarrow: a column a key, a task a row. A null is an absent key.

A column that this server exported as JSON text, because Parquet could not hold its values exactly, says so in its
field's metadata, and is read as JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyarrow import types

from environments.transfer.reserved import declared, stray
from environments.transfer.rows import BadRow, Refusal, Row, Unit, Unreadable
from environments.transfer.values import parsed

READ_ROWS = 250
AS_JSON = (b"orsweb", b"json")
"""Entry of the metadata of a field that holds JSON text."""


class ParquetTable:
    unit: Unit = "row"

    def __init__(self, path: Path, name: str, task_schema: Mapping[str, Any]) -> None:
        """Raises: Unreadable."""
        self._name = name
        try:
            self._file = pq.ParquetFile(path)
        except (pa.ArrowException, OSError) as error:
            raise Unreadable(f"{name} is cut off, damaged or no Parquet file: {_first_line(error)}.") from error
        self.done, self.total = 0, self._file.metadata.num_rows
        schema = self._file.schema_arrow
        self._json = [field.name for field in schema if (field.metadata or {}).get(AS_JSON[0]) == AS_JSON[1]]
        if wrong := stray(schema.names, declared(task_schema)):
            raise Unreadable(f"{name} {wrong}.")
        for field in schema:
            if not _has_json(field.type):
                raise Unreadable(
                    f"{name}: column {field.name!r} holds {field.type}, which JSON has not; write it as text or number."
                )

    def __iter__(self) -> Iterator[Row | Refusal]:
        try:
            for batch in self._file.iter_batches(batch_size=READ_ROWS):
                for value in batch.to_pylist():
                    self.done += 1
                    yield self._row(value)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise Unreadable(f"{self._name} is damaged after row {self.done}: {_first_line(error)}.") from error

    def _row(self, value: dict[str, Any]) -> Row | Refusal:
        present = {key: item for key, item in value.items() if item is not None}
        try:
            return Row(self.done, present | {key: parsed(present[key]) for key in self._json if key in present})
        except BadRow as error:
            return Refusal(self.done, str(error))


def _has_json(kind: pa.DataType) -> bool:
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _has_json(kind.value_type)
    if types.is_dictionary(kind):
        return _has_json(kind.value_type)
    if types.is_struct(kind):
        return all(_has_json(kind.field(n).type) for n in range(kind.num_fields))
    plain = (types.is_boolean, types.is_integer, types.is_floating, types.is_string, types.is_large_string)
    return types.is_null(kind) or types.is_string_view(kind) or any(is_kind(kind) for is_kind in plain)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
