"""Lines of CSV files: values as text that comes back as it was, and that no spreadsheet takes for a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from datetime import datetime
from typing import Any

_FORMULA = (*"=+-@\t\r\n", *"\uff1d\uff0b\uff0d\uff20")
"""With the full-width forms of the first four, which spreadsheets in East Asia read alike."""


def csv_line(values: Iterable[Any]) -> str:
    file = io.StringIO(newline="")
    csv.writer(file).writerow([_cell(value) for value in values])  # who ends lines with \n does not quote \r
    return file.getvalue().removesuffix("\r\n") + "\n"


def _cell(value: Any) -> str:
    """A text that a spreadsheet would take for a formula gets an apostrophe before it; None is empty."""
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA) else value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat()
    return "" if value is None else repr(value)
