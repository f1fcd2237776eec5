"""Sketches of durations: counts in bins whose width grows with the duration, so that quantiles have
a known error.

Nothing here reads the database. A stored sketch is a JSON array: place n holds the durations below
2**(n-3) ms, the last place all others. A place without durations is 0. Another one is an object
that counts by the bin within the place; place 0 has one bin. Sketches that were stored before bins
existed have one number per place. They count as its middle bin, so their quantiles may be off by 41
% until `rebuild_statistics`.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence

from pydantic_core import from_json

DurationSketch = Counter[int]
"""Number of durations by bin: bin 0 is below SMALLEST_MS, and bin n starts at SMALLEST_MS *
2**((n-1) / BINS)."""

SMALLEST_MS = 0.125
BINS = 18
"""Bins until a duration has doubled. The middle of one is at most 2**(1/36) - 1 = 1.94 % off what
is in it."""
MAX_ERROR = 0.02
"""Largest relative error of a quantile. Below SMALLEST_MS it may be 0.1 ms instead."""
_LAST_PLACE = 25
_BELOW_MS = 0.1


def bin_sql(column: str) -> str:
    """Return the SQL expression for the bin of a duration in milliseconds."""
    doublings = f"LN({column} / {SMALLEST_MS}) / LN(2.0)"
    return (
        f"CASE WHEN {column} < {SMALLEST_MS} THEN 0 ELSE 1 + CAST(FLOOR({BINS} * {doublings}) AS "
        "INTEGER) END"
    )


def to_text(sketch: DurationSketch) -> str:
    """Return the sketch as it is stored. Counts that aren't positive are left out."""
    places: list[dict[str, int]] = [{} for _ in range(_LAST_PLACE + 1)]
    for number, count in sorted(sketch.items()):
        if count > 0:
            place = min(_LAST_PLACE, (number - 1) // BINS + 1)
            places[place][str(max(0, number - _first_bin(place)))] = count
    return json.dumps([place or 0 for place in places], separators=(",", ":"))


def from_text(text: str) -> DurationSketch:
    """Return a stored sketch."""
    return from_texts([text])


def from_texts(texts: Sequence[str]) -> DurationSketch:
    """Return the sum of stored sketches."""
    counts_by_bin: dict[int, int] = defaultdict(int)
    for places in from_json(f"[{','.join(texts)}]"):
        for place, counts in enumerate(places):
            if not counts:
                continue
            by_bin = counts if isinstance(counts, dict) else {BINS // 2 if place else 0: counts}
            first = _first_bin(place)
            for number, count in by_bin.items():
                if count > 0:
                    counts_by_bin[first + int(number)] += count
    return DurationSketch(counts_by_bin)


def quantile_ms(sketch: DurationSketch, share: float) -> float | None:
    """Return the duration that `share` (0 to 1) of all don't exceed, off by MAX_ERROR at most; None
    without any."""
    rank, below = share * sketch.total(), 0
    for number, count in sorted(sketch.items()):
        below += count
        if below >= rank - 1e-9:
            return SMALLEST_MS * 2.0 ** ((number - 0.5) / BINS) if number else _BELOW_MS
    return None


def _first_bin(place: int) -> int:
    return (place - 1) * BINS + 1 if place else 0
