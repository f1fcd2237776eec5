"""Tests of the lines of CSV files."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime
from typing import Any

from environments.files.csv_lines import csv_line
from tests.rows import each


def read(line: str) -> list[str]:
    [cells] = csv.reader(io.StringIO(line, newline=""))
    return cells


@each("first", "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
def test_no_spreadsheet_takes_a_text_for_a_formula(first: str) -> None:
    assert read(csv_line([f"{first}1"])) == [f"'{first}1"]


@each(
    ("value", "cell"),
    [
        ("a;b\n", "a;b\n"),
        ("1 = 1", "1 = 1"),
        (-1.5, "-1.5"),
        (True, "true"),
        (None, ""),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00+00:00"),
    ],
)
def test_everything_else_comes_back_as_it_was(value: Any, cell: str) -> None:
    assert read(csv_line(["first", value])) == ["first", cell]
