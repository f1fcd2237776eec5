"""A file of tasks and its format. Errors that concern a file as a whole are raised here and by the
readers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from environments.curation.transfer.csv_table import CsvTable
from environments.curation.transfer.json_array import JsonArray
from environments.files.json_lines import JsonLines
from environments.files.rows import Rows, TransferError, Unreadable

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
    """A file with tasks to import."""

    path: Path
    format: Format
    name: str
    """The name that messages use: for an upload, the name of the uploaded file."""

    @classmethod
    def of(cls, path: Path, format: str | None = None, name: str | None = None) -> FileSource:
        """Return the source for a file. `format`: None to take it from the name's extension.
        Raises: TransferError."""
        name = name or path.name
        if format is None:
            return cls(path, format_of(name), name)
        if format not in FORMATS:
            raise TransferError(
                f"The format {format!r} is unknown; use jsonl, json, csv or parquet."
            )
        return cls(path, format, name)

    def fingerprint(self, task_schema: str) -> tuple[int, ...]:
        """Return a value that changes when the file or the schema changes. Raises: Unreadable."""
        try:
            facts = self.path.stat()
        except OSError as error:
            raise Unreadable(f"{self.name} cannot be read: {error.strerror}.") from error
        return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, hash(task_schema)

    @contextmanager
    def rows(self, task_schema: str) -> Iterator[Rows]:
        """Open the file and read its rows. `task_schema`: JSON Schema as text, empty for none.
        Raises: Unreadable."""
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
                # pyarrow takes a third of a second
                from environments.curation.transfer.parquet import ParquetTable

                with ParquetTable(self.path, self.name, json.loads(task_schema or "{}")) as table:
                    yield table
            elif self.format == "json":
                yield JsonArray(file, size_bytes, self.name)
            else:
                yield JsonLines(file, size_bytes)

    def _check_start(self, start: bytes) -> None:
        """Check by its first bytes that the file has the expected type. Raises: Unreadable."""
        if not start.strip(b"\xef\xbb\xbf \t\r\n"):
            raise Unreadable(f"{self.name} is empty. A file must hold at least one task.")
        if foreign := next(
            (what for magic, what in _FOREIGN.items() if start.startswith(magic)), None
        ):
            raise Unreadable(f"{self.name} is {foreign}.")
        if start.startswith(_PARQUET) != (self.format == "parquet"):
            wrong = (
                "a Parquet file; choose the format parquet"
                if self.format != "parquet"
                else "not a Parquet file"
            )
            raise Unreadable(f"{self.name} is {wrong}.")
        first = start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
        if self.format == "jsonl" and first == b"[":
            raise Unreadable(
                f"{self.name} is a JSON array, not one object per line; choose the format json."
            )
        if self.format == "json" and first == b"{":
            raise Unreadable(
                f"{self.name} is not an array; if it has one object per line, choose "
                "the format jsonl."
            )


def format_of(name: str) -> Format:
    """Return the format that a file's extension stands for. Raises: TransferError."""
    ending = name.rpartition(".")[2].lower() if "." in name else ""
    format = {"ndjson": "jsonl", "pq": "parquet"}.get(ending, ending)
    if format not in FORMATS:
        raise TransferError(
            f"{name}: the name does not end in .jsonl, .json, .csv or .parquet; choose the format."
        )
    return format
