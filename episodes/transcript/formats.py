"""Formats of times and durations of steps, for step cards and template tags."""

from __future__ import annotations

from datetime import UTC, datetime

from environments.display.formats import NOTHING


def clock(when: datetime | None) -> str:
    """Return the time of day (UTC) with milliseconds, for comparing steps with logs."""
    return f"{when.astimezone(UTC):%H:%M:%S.%f}"[:-3] if when else NOTHING


def milliseconds(value: float | None) -> str:
    """Return a duration in the largest unit that fits: 0.4 ms, 120 ms, 4.2 s, 3 min 12 s, 2 h 05 min."""
    if value is None:
        return NOTHING
    seconds = value / 1000
    if seconds < 1:
        return f"{value:.1f} ms" if value < 10 else f"{value:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {seconds:02d} s"
