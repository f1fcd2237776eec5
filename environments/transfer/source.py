"""Source: a file of tasks and its format. Everything that makes a file as a whole unfit is told here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from environments.transfer.csv_table import CsvTable
from environments.transfer.json_array import JsonArray
from environments.transfer.json_lines import JsonLines
from environments.transfer.rows import Rows, TransferError, Unreadable

Format = Literal["jsonl", "json", "csv", "parquet"]
FORMATS: tuple[Format, ...] = get_args(Format)

_PARQUET = b"PAR1"
_FOREIGN = {
    b"PK\x03\x04": "an Excel or ZIP file; save its table as CSV",
    b"\x1f\x8b": "compressed; unpack it first, with gunzip",
    b"\x28\xb5\x2f\xfd": "compressed; unpack it first, with unzstd",
    b"\xff\xfe": "UTF-16; save it as UTF-8",
    b"\xfe\xff": "UTF-16; save it as UTF-8",
    b"\xd0\xcf\x11\xe0": "an old Excel file; save its table as CSV",
}


@dataclass(frozen=True, slots=True)
class FileSource:
    path: Path
    format: Format
    name: str
    """As people call it: of an upload the name it had."""

    @classmethod
    def of(cls, path: Path, format: str | None = None, name: str | None = None) -> FileSource:
        """`format`: None to go by the name's ending. Raises: Unreadable."""
        name = name or path.name
        return cls(path, format_of(name) if format is None else _known(format), name)

    def fingerprint(self, task_schema: str) -> tuple[int, ...]:
        """Differs when the file or the schema has changed. Raises: Unreadable."""
        try:
            facts = self.path.stat()
        except OSError as error:
            raise Unreadable(f"{self.name} cannot be read: {error.strerror}.") from error
        return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, hash(task_schema)

    @contextmanager
    def rows(self, task_schema: str) -> Iterator[Rows]:
        """One reading of the file. `task_schema`: JSON Schema as text, empty for none. Raises: Unreadable."""
        try:
            size_bytes, file = self.path.stat().st_size, self.path.open("rb")
        except OSError as error:
            raise Unreadable(f"{self.name} cannot be read: {error.strerror}.") from error
        with file:
            self._check_start(file.read(4096))
            file.seek(0)
            if self.format == "csv":
                yield CsvTable(file, size_bytes, self.name, json.loads(task_schema or "{}"))
            elif self.format == "parquet":
                from environments.transfer.parquet import ParquetTable  # pyarrow takes a third of a second

                yield ParquetTable(self.path, self.name, json.loads(task_schema or "{}"))
            elif self.format == "json":
                yield JsonArray(file, size_bytes, self.name)
            else:
                yield JsonLines(file, size_bytes)

    def _check_start(self, start: bytes) -> None:
        """Wrong types of file, by their first bytes. Raises: Unreadable."""
        if not start.strip(b"\xef\xbb\xbf \t\r\n"):
            raise Unreadable(f"{self.name} is empty; a file has one task at least.")
        if foreign := next((what for magic, what in _FOREIGN.items() if start.startswith(magic)), None):
            raise Unreadable(f"{self.name} is {foreign}.")
        if start.startswith(_PARQUET) != (self.format == "parquet"):
            wrong = "a Parquet file; name the format parquet" if self.format != "parquet" else "no Parquet file"
            raise Unreadable(f"{self.name} is {wrong}.")
        first = start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
        if self.format == "jsonl" and first == b"[":
            raise Unreadable(f"{self.name} is a JSON array, not one object a line; name the format json.")
        if self.format == "json" and first == b"{":
            raise Unreadable(f"{self.name} is no array; if it has one object a line, name the format jsonl.")


def format_of(name: str) -> Format:
    """By the ending of a file's name. Raises: TransferError."""
    ending = name.rpartition(".")[2].lower() if "." in name else ""
    wanted = {"ndjson": "jsonl", "pq": "parquet"}.get(ending, ending)
    if found := next((format for format in FORMATS if format == wanted), None):
        return found
    raise TransferError(f"{name}: the name does not end in .jsonl, .json, .csv or .parquet; name the format.")


def _known(format: str) -> Format:
    if found := next((known for known in FORMATS if known == format), None):
        return found
    raise TransferError(f"The format {format!r} is unknown; use jsonl, json, csv or parquet.")
