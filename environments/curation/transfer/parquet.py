"""Reads and writes tasks as Parquet: a column per key, a row per task. A null is an absent key.

Columns whose values Parquet cannot represent exactly are written as JSON text. The metadata of such
a field says so, and the column is read as JSON again.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from environments.curation.transfer.columns import Survey, declared, stray
from environments.curation.transfer.parquet_process import AS_JSON
from environments.curation.transfer.writers import TaskText
from environments.files.cells import parsed
from environments.files.output import TakenFile
from environments.files.rows import BadRow, FileRow, Refusal, Unit, Unreadable
from environments.tasks.stored_spec import TOO_LONG

LONG_ROW = "long"
GROUP_ROWS = 10_000
"""Rows in a row group. Rows that are not written yet are in memory."""
_TYPES = {"text": pa.string(), "integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}


class ParquetTable:
    """The rows of a Parquet file; see `rows.Rows`. `parquet_process.py` reads them. Use it in a
    `with` block."""

    unit: Unit = "row"

    def __init__(self, path: Path, name: str, task_schema: Mapping[str, Any]) -> None:
        self._path, self._name, self._schema = path, name, task_schema
        self.done = self.total = 0

    def __enter__(self) -> Self:
        """Open the file. Raises: Unreadable."""
        # Without the variables and the modules of this process, which may be secret and shadow
        # others.
        command = [
            sys.executable,
            "-I",
            str(Path(__file__).with_name("parquet_process.py")),
            str(self._path),
        ]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={}
        )  # nosec B603 # this interpreter
        try:
            facts = json.loads(self._next())
            self.total, self._json = facts["rows"], facts["json"]
            if wrong := stray(facts["names"], declared(self._schema)):
                raise Unreadable(f"{self._name} {wrong}.")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end()

    def __iter__(self) -> Iterator[FileRow | Refusal]:
        while line := self._next():
            self.done += 1
            yield Refusal(self.done, TOO_LONG) if line == LONG_ROW else self._row(json.loads(line))

    def _next(self) -> str:
        """Return the next line without its letter, LONG_ROW for a row that is too long; empty after
        the last one.

        Raises: Unreadable.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline().decode("ascii")
        if line.startswith("e"):
            reason = line[1:].strip()
            raise Unreadable(f"{self._name}{'' if reason.startswith(':') else ' '}{reason}.")
        if not line and (status := self._process.wait()):
            raise Unreadable(
                f"{self._name} is damaged after row {self.done}: its reader ended "
                f"with status {status}."
            )
        return LONG_ROW if line.startswith("l") else line[1:]

    def _end(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _row(self, present: dict[str, Any]) -> FileRow | Refusal:
        try:
            return FileRow(
                self.done,
                present | {key: parsed(present[key]) for key in self._json if key in present},
            )
        except BadRow as error:
            return Refusal(self.done, str(error))


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
        return {
            key: json.dumps(value) if self._kinds[key] == "json" else value
            for key, value in row.items()
        }


def _field(column: str, kind: str) -> Any:
    return pa.field(
        column, _TYPES.get(kind, pa.string()), metadata=dict([AS_JSON]) if kind == "json" else None
    )
