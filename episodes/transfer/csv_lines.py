"""Lines of CSV files whose cells spreadsheets do not treat as formulas, and what files of figures
say about their figures: definition and coverage."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from environments.display.numbers import digits_of
from environments.files.cells import FORMULA_STARTS
from environments.scoring.convention import CONVENTION_PARTS, Coverage
from environments.scoring.definition import Definitions

COVERAGE_COLUMNS = (
    "rollouts",
    "rollouts_own",
    "rollouts_zero",
    "rollouts_out",
    "rollouts_numberless",
)
"""Columns of figures: all rollouts, those that count with their return, those that count as 0,
those left out, and those whose return lacks a reward that was not a number."""
DEFINITION_HEADER = "X-Definition"
"""Header of a response with figures: the definition of return and success and the convention that
hold for them."""
COVERAGE_HEADER = "X-Coverage"
"""Header of a response with figures or episodes: how many rollouts count, as pages say it next to
figures."""


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


def coverage_values(coverage: Coverage | None) -> list[Any]:
    """Return the values of COVERAGE_COLUMNS."""
    if coverage is None:
        return [None] * len(COVERAGE_COLUMNS)
    return [
        coverage.rollouts,
        coverage.own,
        sum(coverage.zero.values()),
        sum(coverage.out.values()),
        coverage.numberless,
    ]


def definition_header(*definitions: Definitions) -> dict[str, str]:
    """Return the header with the definition of a file, or with that of each of its series where
    they differ.

    Parts in which the environments of a series differ are "environment".
    """
    texts = list[str]()
    for definition in definitions:
        threshold = None if definition.threshold is None else digits_of(definition.threshold)
        parts = {"return": definition.return_, "threshold": threshold}
        parts |= {name: definition.part(name) for name in CONVENTION_PARTS}
        texts.append("; ".join(f"{name}={value or 'environment'}" for name, value in parts.items()))
    return {DEFINITION_HEADER: texts[0] if len(set(texts)) == 1 else " | ".join(texts)}


def coverage_header(coverages: Iterable[Coverage | None]) -> dict[str, str]:
    """Return the header of a file of figures with the coverage of each of its series, in their
    order."""
    texts = ["" if coverage is None else coverage.text for coverage in coverages]
    return {COVERAGE_HEADER: " | ".join(texts)}
