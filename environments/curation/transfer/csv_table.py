"""Reads tasks from CSV: a header with the names of the keys, then one task per row. `cells`
converts the cells."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from environments.curation.transfer.columns import COLUMNS, MAX_COLUMNS, declared, stray
from environments.errors import shorten
from environments.files import cells
from environments.files.cells import Kind
from environments.files.json_lines import Lines
from environments.files.rows import MAX_ROW_BYTES, BadRow, FileRow, Refusal, Unit, Unreadable

_UNDECODED = re.compile("[\udc80-\udcff]")
"""Characters that `surrogateescape` produces for bytes that are not UTF-8."""


class CsvTable:
    """The rows of a CSV file; see `rows.Rows`."""

    unit: Unit = "line"

    def __init__(
        self, file: BinaryIO, size_bytes: int, name: str, schema: Mapping[str, Any]
    ) -> None:
        """Read the header.

        file: seekable, because it is read more than once.
        schema: the task schema; empty if the environment declares none.
        Raises: Unreadable for a wrong header.
        """
        self.total, self._file, self._name = size_bytes, file, name
        self._lines = Lines(file)
        self.columns = self._header(schema)
        self._kinds = {column: cells.kind_of(schema, column) for column in self.columns}
        self._kinds |= {column: Kind.TEXT for column in COLUMNS}
        self._decide_open_columns()

    @property
    def done(self) -> int:
        return self._lines.done

    def __iter__(self) -> Iterator[FileRow | Refusal]:
        for number, row in self._rows():
            try:
                yield FileRow(number, self._value(row))
            except BadRow as error:
                yield Refusal(number, str(error))

    def _value(self, row: list[str] | csv.Error) -> dict[str, Any]:
        if isinstance(row, csv.Error):
            raise BadRow(f"is not CSV: {_message(row)}")
        if len(row) != len(self.columns):
            raise BadRow(f"has {len(row)} cells, but the header has {len(self.columns)}")
        if any(not cell.isascii() and _UNDECODED.search(cell) for cell in row):
            raise BadRow("is not UTF-8; save the file as UTF-8")
        cells_by_column = [
            (column, cell) for column, cell in zip(self.columns, row, strict=True) if cell
        ]
        return {
            column: cells.read(cell, self._kind(column, cell), column)
            for column, cell in cells_by_column
        }

    def _kind(self, column: str, cell: str) -> Kind:
        # as exported; people write words separated by commas
        if column == "_tags" and cell.startswith("["):
            return Kind.JSON
        return self._kinds[column]

    def _decide_open_columns(self) -> None:
        """Scan the whole file if there are columns whose kind the schema does not define."""
        open_columns = [
            n for n, column in enumerate(self.columns) if self._kinds[column] is Kind.OPEN
        ]
        maybe_json = set(open_columns)
        for _, row in self._rows() if open_columns else ():
            if not maybe_json:
                break
            if not isinstance(row, csv.Error) and len(row) == len(self.columns):
                maybe_json -= {n for n in maybe_json if row[n] and not cells.is_json(row[n])}
        for n in open_columns:
            self._kinds[self.columns[n]] = Kind.JSON if n in maybe_json else Kind.TEXT

    def _rows(self) -> Iterator[tuple[int, list[str] | csv.Error]]:
        """Yield every row after the header with the number of its first line. Blank lines are
        skipped."""
        reader = self._reader()
        next(reader, None)
        while True:
            number = self._lines.number + 1
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield number, error
                continue
            if row:
                yield number, row

    def _reader(self) -> Any:
        csv.field_size_limit(MAX_ROW_BYTES)  # the default of 128 KB holds for the whole process
        self._file.seek(0)
        self._lines = Lines(self._file)
        return csv.reader(self._decoded(), strict=True)

    def _decoded(self) -> Iterator[str]:
        for line in self._lines:
            if line is None:
                raise Unreadable(
                    f"{self._name}: line {self._lines.number} is too long for a row of a CSV file."
                )
            yield line.decode("utf-8", "surrogateescape")

    def _header(self, schema: Mapping[str, Any]) -> list[str]:
        try:
            columns: list[str] = next(self._reader(), [])
        except csv.Error as error:
            raise Unreadable(f"{self._name} is not a CSV file: {_message(error)}.") from error
        self._check_names(columns)
        if wrong := stray(columns, declared(schema)):
            raise Unreadable(f"{self._name} {wrong}.")
        self._check_schema([column for column in columns if column not in COLUMNS], schema)
        return columns

    def _check_names(self, columns: list[str]) -> None:
        if len(columns) == 1 and (
            mark := next((mark for mark in ";\t|" if mark in columns[0]), None)
        ):
            raise Unreadable(
                f"{self._name} separates its columns with {mark!r}; save it with commas."
            )
        if not columns or len(columns) > MAX_COLUMNS:
            raise Unreadable(
                f"{self._name} has {len(columns)} columns; 1 to {MAX_COLUMNS} are allowed."
            )
        for place, column in enumerate(columns, 1):
            if not column:
                raise Unreadable(f"{self._name}: column {place} has no name; name or remove it.")
            if columns.index(column) != place - 1:
                raise Unreadable(
                    f"{self._name} has the column {shorten(column, 60)!r} twice; "
                    "rename or remove one."
                )
            if _UNDECODED.search(column):
                raise Unreadable(f"{self._name}: the header is not UTF-8; save the file as UTF-8.")

    def _check_schema(self, columns: list[str], schema: Mapping[str, Any]) -> None:
        declared_names = list(schema.get("properties", {}))
        if schema.get("additionalProperties") is False and (
            unknown := [name for name in columns if name not in declared_names]
        ):
            raise Unreadable(
                f"{self._name} has the column {shorten(unknown[0], 60)!r}, which tasks here do not "
                "have; allowed are "
                f"{_listing(declared_names)} and the reserved {', '.join(COLUMNS)}."
            )
        if missing := [name for name in schema.get("required", ()) if name not in columns]:
            raise Unreadable(
                f"{self._name} has no column {missing[0]!r}, which every task here must have; it "
                "has "
                f"{_listing(columns)}."
            )


def _listing(names: list[str]) -> str:
    return (
        ", ".join(shorten(name, 40) for name in names[:30]) + (", …" if len(names) > 30 else "")
        or "nothing"
    )


def _message(error: csv.Error) -> str:
    """Return what is wrong. Python's own message about a lone carriage return is written for
    programmers."""
    text = str(error)
    return (
        "a cell with a line break must be in quotes"
        if text.startswith("new-line character")
        else text
    )
