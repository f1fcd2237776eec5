"""Reads a Parquet file in a process of its own, whose memory is limited, and writes its rows to
stdout as JSON lines.

A few hundred bytes of Parquet can describe gigabytes, and its headers can say something else than
its pages do. What this process may allocate is therefore limited by the kernel, and `parquet.py`,
which starts it, gets rows of limited length. It runs without Django and imports nothing of this
project.

Each line starts with a letter: `f` facts about the file, once; `r` a row; `l` a row that is too
long; `e` why the file cannot be read, at the end.
"""

from __future__ import annotations

import json
import math
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyarrow import types

MAX_MEMORY_BYTES = 512 * 1024**2
MAX_CPU_SECONDS = 1800
MAX_ROWS = 1_000_000
MAX_CELLS = 200_000_000
"""Most rows times columns: empty columns take no room in a file, but time."""
MAX_ROW_BYTES = 32 * 1024**2
"""Longest JSON of a row that is passed on; the limit for tasks is shorter."""
MAX_EXPANSION = 100
MIN_EXPANDED_BYTES = 256 * 1024**2
"""The JSON of the rows may be so long, or MAX_EXPANSION times as long as the file. A dictionary
repeats a long text
at the cost of some bits: 519 bytes held 5 GB."""
BATCH_ROWS = 250
BATCH_BYTES = 16 * 1024**2
AS_JSON = (b"orsweb", b"json")
"""Entry in the metadata of a field that holds JSON text."""


class Refused(Exception):
    """The file cannot be read; the message completes a sentence that starts with its name."""


def main(path: str) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_SECONDS, MAX_CPU_SECONDS))
    pa.set_memory_pool(pa.system_memory_pool())  # others reserve more than they use
    number = 0
    try:
        file = _opened(path)
        _write("f", json.dumps(_facts(file)))
        budget = max(MIN_EXPANDED_BYTES, MAX_EXPANSION * Path(path).stat().st_size)
        for number, row in enumerate(_rows(file), 1):
            text = json.dumps(row)
            budget -= len(text)
            _check_total(number, budget)
            _write(*("r", text) if len(text) <= MAX_ROW_BYTES else ("l", ""))
    except Refused as error:
        _write("e", str(error))
    except MemoryError:  # pyarrow's own error is one too
        limit = MAX_MEMORY_BYTES // 1024**2
        _write(
            "e",
            f"needs more than {limit:,} MB of memory at row {number + 1}; write it with "
            "shorter texts or lists",
        )
    except (pa.ArrowException, OSError, ValueError) as error:
        _write("e", f"is damaged after row {number}: {_first_line(error)}")
    sys.stdout.flush()


def _opened(path: str) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise Refused(f"is cut off, damaged or not a Parquet file: {_first_line(error)}") from error


def _check_total(rows: int, left_bytes: int) -> None:
    """Raises: Refused when the file has too many rows, or no bytes are left to it."""
    if rows > MAX_ROWS:
        raise Refused(f"has more than {MAX_ROWS:,} rows; divide it, or use jsonl")
    if left_bytes < 0:
        limit = MIN_EXPANDED_BYTES // 1024**2
        raise Refused(
            f"has rows {MAX_EXPANSION} times as long as itself, and longer than {limit} "
            "MB; use jsonl"
        )


def _facts(file: pq.ParquetFile) -> dict[str, Any]:
    """Return the number of rows, the names of the columns, and those that hold JSON text. Raises:
    Refused."""
    schema, rows = file.schema_arrow, file.metadata.num_rows
    if rows > MAX_ROWS:
        raise Refused(
            f"has {rows:,} rows; {MAX_ROWS:,} are allowed in a Parquet file: divide it, "
            "or use jsonl"
        )
    if rows * file.metadata.num_columns > MAX_CELLS:
        raise Refused(
            f"has {rows:,} rows with {file.metadata.num_columns:,} columns; {MAX_CELLS:,} cells "
            "are allowed in a "
            "Parquet file: divide it, or use jsonl"
        )
    for field in schema:
        if not _has_json_form(field.type):
            raise Refused(
                f": column {field.name!r} holds {field.type}, which has no JSON form; "
                "use text or numbers"
            )
    as_json = [
        field.name for field in schema if (field.metadata or {}).get(AS_JSON[0]) == AS_JSON[1]
    ]
    return {"rows": rows, "names": schema.names, "json": as_json}


def _rows(file: pq.ParquetFile) -> Iterator[dict[str, Any]]:
    """Yield the rows without their nulls, decoding about BATCH_BYTES at once."""
    for index in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(index)
        row_bytes = max(1, group.total_byte_size // max(1, group.num_rows))
        size = max(1, min(BATCH_ROWS, BATCH_BYTES // row_bytes))
        for batch in file.iter_batches(batch_size=size, row_groups=[index], use_threads=False):
            for row in batch.to_pylist():
                values = {key: _known(item) for key, item in row.items()}
                yield {key: item for key, item in values.items() if item is not None}


def _known(value: Any) -> Any:
    """Return the value with null in place of NaN, which is what pandas writes for a missing
    value."""
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, list):
        return [_known(item) for item in value]
    return {key: _known(item) for key, item in value.items()} if isinstance(value, dict) else value


def _has_json_form(kind: pa.DataType) -> bool:
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _has_json_form(kind.value_type)
    if types.is_dictionary(kind):
        return _has_json_form(kind.value_type)
    if types.is_struct(kind):
        return all(_has_json_form(kind.field(n).type) for n in range(kind.num_fields))
    plain = (
        types.is_boolean,
        types.is_integer,
        types.is_floating,
        types.is_string,
        types.is_large_string,
    )
    return (
        types.is_null(kind) or types.is_string_view(kind) or any(is_kind(kind) for is_kind in plain)
    )


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


def _write(letter: str, text: str) -> None:
    sys.stdout.write(f"{letter}{text}\n")


if __name__ == "__main__":
    main(sys.argv[1])
