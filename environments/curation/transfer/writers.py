"""Write tasks as JSON Lines, JSON and CSV, in pieces. `parquet.py`, which needs pyarrow, writes
Parquet."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Protocol

from environments.curation.transfer.columns import Survey
from environments.errors import shorten
from environments.files import cells
from environments.files.cells import FORMULA_STARTS
from environments.files.rows import TransferError


class TaskText(Protocol):
    """A task in the form in which it is exported."""

    @property
    def text(self) -> str:
        """A JSON object with the spec and the reserved columns."""


class TaskFileWriter(Protocol):
    """Writes one file. Each call returns the next piece of it."""

    def start(self) -> bytes: ...

    def write(self, tasks: Sequence[TaskText]) -> bytes: ...

    def end(self) -> bytes: ...


class JsonLinesWriter:
    """Writes JSON Lines, with one task per line."""

    def start(self) -> bytes:
        return b""

    def write(self, tasks: Sequence[TaskText]) -> bytes:
        return "".join(f"{_line(task.text)}\n" for task in tasks).encode()

    def end(self) -> bytes:
        return b""


class JsonWriter:
    """Writes a JSON array, with one task per line."""

    def __init__(self) -> None:
        self._between = ""

    def start(self) -> bytes:
        return b"[\n"

    def write(self, tasks: Sequence[TaskText]) -> bytes:
        if not tasks:
            return b""
        piece = ",\n".join(task.text for task in tasks)
        between, self._between = self._between, ",\n"
        return (between + piece).encode()

    def end(self) -> bytes:
        return b"\n]\n"


class CsvWriter:
    """A header with the columns of a survey, then one task per row."""

    def __init__(self, survey: Survey) -> None:
        """Raises: TransferError for a column whose name a spreadsheet would run as a formula."""
        if formula := next(
            (column for column in survey.kinds if column.startswith(FORMULA_STARTS)), None
        ):
            raise TransferError(
                f"A key {shorten(ascii(formula), 60)} would be a formula in a spreadsheet; export "
                "as jsonl or json."
            )
        self._is_text = {column: survey.kind(column) == "text" for column in survey.kinds}

    def start(self) -> bytes:
        return _csv([list(self._is_text)])

    def write(self, tasks: Sequence[TaskText]) -> bytes:
        rows = [json.loads(task.text) for task in tasks]
        columns = self._is_text.items()
        return _csv([[_cell(row, key, is_text) for key, is_text in columns] for row in rows])

    def end(self) -> bytes:
        return b""


def _csv(rows: Sequence[Sequence[str]]) -> bytes:
    lines: list[str] = []
    # With "\n" as its line terminator, csv would leave a cell with a lone "\r" without quotes.
    csv.writer(
        SimpleNamespace(write=lambda line: lines.append(line.removesuffix("\r\n") + "\n"))
    ).writerows(rows)
    return "".join(lines).encode()


def _line(text: str) -> str:
    """Return a spec as one line. Only a spec that was written into the database by hand has line
    breaks."""
    return (
        text
        if "\n" not in text and "\r" not in text
        else text.replace("\r", " ").replace("\n", " ")
    )


def _cell(row: dict[str, Any], key: str, is_text: bool) -> str:
    return cells.write(row[key], is_text=is_text) if key in row else ""
