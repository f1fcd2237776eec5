"""Reads and writes tasks as Parquet: a column per key, a row per task. A null is an absent key.

Columns whose values Parquet cannot represent exactly are written as JSON text. The metadata of such
a field says so, and the column is read as JSON again.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from environments.curation.transfer.columns import Survey, declared, stray
from environments.curation.transfer.parquet_process import AS_JSON
from environments.curation.transfer.writers import Batches
from environments.files.cells import parsed
from environments.files.output import TakenFile
from environments.files.rows import BadRow, FileRow, Refusal, Unit, Unreadable
from environments.files.streaming import Pieces
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


def parquet_file(batches: Batches, survey: Survey) -> Pieces:
    """Yield a Parquet file of tasks; see `writers`."""
    kinds = {column: survey.kind(column) for column in survey.kinds}
    schema = pa.schema(
        [
            pa.field(
                column,
                _TYPES.get(kind, pa.string()),
                metadata=dict([AS_JSON]) if kind == "json" else None,
            )
            for column, kind in kinds.items()
        ]
    )
    sink, waiting = TakenFile(), list[dict[str, Any]]()
    with pq.ParquetWriter(pa.PythonFile(sink, mode="w"), schema) as file:
        yield sink.taken()
        for batch in batches:
            waiting += (
                {
                    key: json.dumps(value) if kinds[key] == "json" else value
                    for key, value in row.items()
                }
                for row in map(json.loads, batch)
            )
            if len(waiting) >= GROUP_ROWS:
                file.write_table(pa.Table.from_pylist(waiting, schema=schema))
                waiting = []
            yield sink.taken()
        if waiting:
            file.write_table(pa.Table.from_pylist(waiting, schema=schema))
    yield sink.taken()
