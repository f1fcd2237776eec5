"""What files of figures say about their figures: definition and coverage."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from environments.display.numbers import digits_of
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
