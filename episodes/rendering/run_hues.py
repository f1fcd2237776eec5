"""The colour of a run: the same on every page and in every chart, for as long as the run exists."""

from __future__ import annotations

HUE_STEP = 15
"""Degrees between neighbouring hues. `record.css` has a class `hue-0`, `hue-15`, … for each."""
_GOLDEN_ANGLE = 137.508
"""Degrees by which numbers that follow each other are turned, so that runs started together differ
most."""


def hue_of_run(pk: int) -> int:
    """Return the hue of the run with this id, in degrees: a multiple of HUE_STEP below 360."""
    return round(pk * _GOLDEN_ANGLE / HUE_STEP) * HUE_STEP % 360
