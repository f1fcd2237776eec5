"""Summaries of neighbouring points of a scalar, and both as the bytes that chunks have."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from struct import Struct
from typing import NamedTuple

POINT = Struct("<qd")
"""Step and value."""
_SUMMARY = Struct("<qqIIddd")


class ScalarSummary(NamedTuple):
    """Neighbouring points of a scalar, or a single one."""

    start: int
    """First step."""
    end: int
    """Last step."""
    numbers: int
    """Points whose value is finite."""
    gaps: int
    """Points whose value is not finite."""
    low: float
    """Least of the finite values; 0 without any, as the mean and the highest."""
    mean: float
    high: float


def summary_of_point(step: int, value: float) -> ScalarSummary:
    if math.isfinite(value):
        return ScalarSummary(step, step, 1, 0, value, value, value)
    return ScalarSummary(step, step, 0, 1, 0.0, 0.0, 0.0)


def merged(parts: Sequence[ScalarSummary]) -> ScalarSummary:
    """Return the summary of neighbouring parts, at least one, in the order of steps."""
    if len(parts) == 1:
        return parts[0]
    starts, ends, counts, gaps, *_ = zip(*parts, strict=True)
    if not all(counts):
        parts = [part for part in parts if part.numbers]
        if not parts:
            return ScalarSummary(starts[0], ends[-1], 0, sum(gaps), 0.0, 0.0, 0.0)
    _, _, _, _, lows, means, highs = zip(*parts, strict=True)
    count, low, high = sum(counts), min(lows), max(highs)
    # each part is weighed before the sum, which could be above 1.8e308
    weights = [part.numbers / count for part in parts]
    mean = math.fsum(map(operator.mul, means, weights))
    return ScalarSummary(
        starts[0], ends[-1], count, sum(gaps), low, min(max(mean, low), high), high
    )


def thinned(parts: Sequence[ScalarSummary], size: int) -> list[ScalarSummary]:
    """Return a summary of each `size` neighbours; the last may have fewer."""
    return [merged(parts[place : place + size]) for place in range(0, len(parts), size)]


def packed(parts: Iterable[ScalarSummary]) -> bytes:
    return b"".join([_SUMMARY.pack(*part) for part in parts])


def unpacked(content: bytes) -> list[ScalarSummary]:
    return list(map(ScalarSummary._make, _SUMMARY.iter_unpack(content)))
