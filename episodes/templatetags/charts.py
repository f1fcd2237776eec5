"""Template tags for small line charts as inline SVG, in the colour of the text and without
scripts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

register = template.Library()

MAX_POINTS = 200
"""A sparkline has pixels for fewer. Neighbours are averaged where there are more points."""
_EDGE = 1.5
"""Pixels around the line for half of its width and for the dot at its end."""


@register.simple_tag
def sparkline(
    points: Sequence[float | None],
    low: float | None = None,
    high: float | None = None,
    label: str = "",
    width: int = 96,
    height: int = 20,
) -> SafeString:
    """Return a line through `points`, oldest first, with gaps where they are None and a dot at the
    end.

    `low` and `high` fix the scale, such as an environment's range of rewards; points outside widen
    it. Without them the scale is that of the points. Screen readers read `label`; without a label
    the chart is hidden from them, because the page shows its figures as text. Classes: `spark`, and
    within it `spark-line` and `spark-end`.
    """
    values = _values(points)
    present = [value for value in values if value is not None]
    if not present:
        return format_html(
            '<svg class="spark" width="{}" height="{}" aria-hidden="true"></svg>', width, height
        )
    bottom = min(present) if low is None else min(low, *present)
    top = max(present) if high is None else max(high, *present)
    places = list(_places(values, bottom, top, width, height))
    return format_html(
        '<svg class="spark" viewBox="0 0 {} {}" width="{}" height="{}" {}>{}<circle '
        'class="spark-end" cx="{}" cy="{}"'
        ' r="1.5" fill="currentColor"/></svg>',
        width,
        height,
        width,
        height,
        format_html('role="img" aria-label="{}"', label)
        if label
        else SafeString('aria-hidden="true"'),
        format_html_join(
            "",
            '<polyline class="spark-line" points="{}" fill="none" stroke="currentColor" '
            'stroke-width="1.25"/>',
            ((" ".join(f"{x},{y}" for x, y in line),) for line in _lines(places)),
        ),
        *next(place for place in reversed(places) if place is not None),
    )


def _values(points: Sequence[float | None]) -> list[float | None]:
    """Return up to MAX_POINTS values, capped so that a difference of two cannot overflow; NaN is
    None."""
    values = [
        None if value is None or value != value else max(-1e300, min(1e300, value))
        for value in points
    ]
    if len(values) <= MAX_POINTS:
        return values
    edges = [len(values) * n // MAX_POINTS for n in range(MAX_POINTS + 1)]
    means = list[float | None]()
    for start, stop in pairwise(edges):
        present = [value for value in values[start:stop] if value is not None]
        means.append(sum(value / len(present) for value in present) if present else None)
    return means


def _places(
    points: list[float | None], bottom: float, top: float, width: int, height: int
) -> Iterator[tuple[float, float] | None]:
    across = (width - 2 * _EDGE) / max(1, len(points) - 1)
    for number, value in enumerate(points):
        share = 0.5 if value is None or top == bottom else (value - bottom) / (top - bottom)
        place = (
            round(_EDGE + number * across, 1),
            round(height - _EDGE - share * (height - 2 * _EDGE), 1),
        )
        yield None if value is None else place


def _lines(places: list[tuple[float, float] | None]) -> Iterator[list[tuple[float, float]]]:
    """Yield the lines of neighbouring points. A point without neighbours becomes a short stroke."""
    line: list[tuple[float, float]] = []
    for place in [*places, None]:
        if place is not None:
            line.append(place)
        elif line:
            yield line if len(line) > 1 else [line[0], (line[0][0] + 0.5, line[0][1])]
            line = []
