"""The ends of the y axis of a chart, the same in figures for papers as on pages
(`static/orsweb/chart_axes.js`)."""

from __future__ import annotations

import math
from collections.abc import Sequence

PARTS = 5
"""Parts of a round axis at most; its ends are multiples of a part."""


def round_limits(low: float, high: float) -> tuple[float, float]:
    """Return the ends of a linear axis that has these values."""
    if low == high:
        low, high = low - (abs(low) or 1) / 2, high + (abs(high) or 1) / 2
    power = 10.0 ** math.floor(math.log10((high - low) / PARTS))
    parts = [factor * power for factor in (1, 2, 5, 10)]
    part = next(part for part in parts if (high - low) / part <= PARTS * (1 + 1e-9))
    ends = math.floor(low / part + 1e-9) * part, math.ceil(high / part - 1e-9) * part
    return _rounded(ends[0]), _rounded(ends[1])


def log_limits(low: float, high: float) -> tuple[float, float]:
    """Return the ends of a logarithmic axis that has these values above 0: 1, 2 or 5 times a power
    of ten."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [float(f"{factor}e{power}") for power in powers for factor in (1, 2, 5)]
    low = max([tick for tick in ticks if tick <= low], default=low)
    high = min([tick for tick in ticks if tick >= high], default=high)
    return (low / 2, high * 2) if low == high else (low, high)


def limits_of(values: Sequence[float], *, is_log: bool) -> tuple[float, float]:
    """Return the ends of the axis of a chart of these values."""
    if not values:
        return (0.1, 10.0) if is_log else (0.0, 1.0)
    return (log_limits if is_log else round_limits)(min(values), max(values))


def _rounded(value: float) -> float:
    return float(f"{value:.12g}")
