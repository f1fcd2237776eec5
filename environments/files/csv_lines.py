"""Lines of CSV files whose cells spreadsheets do not treat as formulas."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from environments.files.cells import FORMULA_STARTS


def csv_line(values: Iterable[Any]) -> str:
    """Return one line of a CSV file, with its line end."""
    file = io.StringIO(newline="")
    # The writer ends lines with \r\n, since otherwise it leaves \r unquoted.
    csv.writer(file).writerow([_cell(value) for value in values])
    return file.getvalue().removesuffix("\r\n") + "\n"


def _cell(value: Any) -> str:
    """Return a value as a cell. Texts that look like a formula are prefixed with an apostrophe;
    None is empty.

    Numbers have all their digits, and other values are written as in addresses.
    """
    if isinstance(value, str):
        return f"'{value}" if value.startswith(FORMULA_STARTS) else value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat()
    if value is None:
        return ""
    return repr(value) if isinstance(value, int | float) else str(value)
