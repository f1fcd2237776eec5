"""Smoothing of the values along a curve. `curve_chart.py` uses it."""

from __future__ import annotations

from collections.abc import Sequence

MAX_SMOOTHING = 0.99
"""Highest strength of the exponential smoothing; at 1 a curve would stay at its first value."""


def smoothed(values: Sequence[float | None], strength: float) -> list[float | None]:
    """Return the exponential moving average of `values`; None stays None and is ignored.

    The average starts at the first value and is not biased towards 0: the weights of the values so far add up to 1.
    """
    total = weight = 0.0
    found = list[float | None]()
    for value in values:
        if value is not None and strength:
            total, weight = total * strength + value, weight * strength + 1.0
        found.append(value if value is None or not strength else total / weight)
    return found
