"""CSV files of figures, and what their headers say: definition and coverage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.http import HttpResponse

from environments.display.numbers import digits_of
from environments.scoring.convention import CONVENTION_PARTS, Coverage, coverages_together
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
MAX_NAMED = 12
"""Series that have parts of their own in a header: proxies refuse headers of many KB."""
DEFINITION_HEADER = "X-Definition"
"""Header of a response with figures: the definition of return and success and the convention that
hold for them."""
COVERAGE_HEADER = "X-Coverage"
"""Header of a response with figures or episodes: how many rollouts count, as pages say it next to
figures."""


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

    Parts in which the environments of a series differ are "environment"; of more than MAX_NAMED
    series also those in which the series differ.
    """
    series = list[dict[str, str | None]]()
    for definition in definitions:
        threshold = None if definition.threshold is None else digits_of(definition.threshold)
        parts = {"return": definition.return_, "threshold": threshold}
        series.append(parts | {name: definition.part(name) for name in CONVENTION_PARTS})
    if len(series) > MAX_NAMED:
        values = {name: {parts[name] for parts in series} for name in series[0]}
        series = [{name: each.pop() if len(each) == 1 else None for name, each in values.items()}]
    texts = [
        "; ".join(f"{name}={value or 'environment'}" for name, value in parts.items())
        for parts in series
    ]
    return {DEFINITION_HEADER: texts[0] if len(set(texts)) == 1 else " | ".join(texts)}


def coverage_header(coverages: Iterable[Coverage | None]) -> dict[str, str]:
    """Return the header of a file of figures with the coverage of each of its series, in their
    order; of more than MAX_NAMED with that of all together."""
    series = list(coverages)
    if len(series) > MAX_NAMED:
        series = [coverages_together([coverage for coverage in series if coverage])]
    texts = ["" if coverage is None else coverage.text for coverage in series]
    return {COVERAGE_HEADER: " | ".join(texts)}


def csv_response(
    name: str, lines: Iterable[str], headers: Mapping[str, str] | None = None
) -> HttpResponse:
    """Return the response with a CSV file of this name."""
    response = HttpResponse("".join(lines), content_type="text/csv; charset=utf-8", headers=headers)
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response
