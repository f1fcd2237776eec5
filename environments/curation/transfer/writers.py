"""Write tasks as JSON Lines, JSON and CSV, in pieces. `parquet.py`, which needs pyarrow, writes
Parquet.

Each function gets the tasks in batches, as texts of JSON objects with the spec and the reserved
columns.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from types import SimpleNamespace

from environments.curation.transfer.columns import Survey
from environments.errors import shorten
from environments.files import cells
from environments.files.cells import FORMULA_STARTS
from environments.files.rows import TransferError
from environments.files.streaming import Pieces

Batches = Iterable[Sequence[str]]


def json_lines(batches: Batches) -> Pieces:
    """Yield JSON Lines, with one task per line."""
    yield b""
    for batch in batches:
        # only a spec that was written into the database by hand has line breaks
        lines = (text.replace("\r", " ").replace("\n", " ") for text in batch)
        yield "".join(f"{line}\n" for line in lines).encode()


def json_array(batches: Batches) -> Pieces:
    """Yield a JSON array, with one task per line."""
    before = "[\n"
    for batch in batches:
        if batch:
            yield (before + ",\n".join(batch)).encode()
            before = ",\n"
    yield b"\n]\n" if before == ",\n" else b"[\n\n]\n"


def csv_table(batches: Batches, survey: Survey) -> Pieces:
    """Yield a header with the columns of a survey, then one task per row.

    Raises: TransferError for a column whose name a spreadsheet would run as a formula.
    """
    for column in survey.kinds:
        if column.startswith(FORMULA_STARTS):
            raise TransferError(
                f"A key {shorten(ascii(column), 60)} would be a formula in a spreadsheet; export "
                "as jsonl or json."
            )
    columns = {column: survey.kind(column) == "text" for column in survey.kinds}
    yield _csv([list(columns)])
    for batch in batches:
        yield _csv(
            [cells.write(row[key], is_text=columns[key]) if key in row else "" for key in columns]
            for row in map(json.loads, batch)
        )


def _csv(rows: Iterable[Sequence[str]]) -> bytes:
    lines: list[str] = []
    # With "\n" as its line terminator, csv would leave a cell with a lone "\r" without quotes.
    csv.writer(
        SimpleNamespace(write=lambda line: lines.append(line.removesuffix("\r\n") + "\n"))
    ).writerows(rows)
    return "".join(lines).encode()
