"""Template tags for bars as inline SVG: activity per minute, hour or day, and the shares of
endings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django import template
from django.utils.http import urlencode

from episodes.figures.activity import ActivityPoint

register = template.Library()

BAR_WIDTH = 10
HEIGHT = 100
MIN_HEIGHT = 3
"""A single episode among thousands has to be visible."""
SHARES_WIDTH = 1000
MIN_SHARE_WIDTH = 8


class Bar(NamedTuple):
    x: int
    y: float
    height: float
    query: str
    """Query string of the page that lists the bar's episodes; empty when there are none."""
    title: str


class Share(NamedTuple):
    cause: str
    x: float
    width: float
    number: int
    percent: float


@register.inclusion_tag("figures/activity_bars.html")
def bars(points: Sequence[ActivityPoint], figure: str, episodes_url: str) -> dict[str, Any]:
    """Return the context of the bars of `figure` ("episodes" or "steps"). Each bar links to its
    time's episodes."""
    values = [getattr(point, figure) for point in points]
    return {
        "bars": list(_bars(points, values, figure)),
        "width": BAR_WIDTH * len(values),
        "height": HEIGHT,
        "most": max(values),
        "unit": {60: "minute", 3600: "hour"}.get(points[0].seconds, "day"),
        "figure": figure,
        "episodes_url": episodes_url,
    }


def _bars(points: Sequence[ActivityPoint], values: Sequence[int], figure: str) -> Iterator[Bar]:
    most = max(values) or 1
    for number, (point, value) in enumerate(zip(points, values, strict=True)):
        height = max(value * HEIGHT / most, MIN_HEIGHT) if value else 0.0
        since, until = (
            datetime.fromtimestamp(at, UTC) for at in (point.start, point.start + point.seconds)
        )
        query = urlencode(
            {"since": f"{since:%Y-%m-%dT%H:%M:%SZ}", "until": f"{until:%Y-%m-%dT%H:%M:%SZ}"}
        )
        title = f"{value:,} {figure}, {since:%b %d %H:%M} to {until:%H:%M} UTC"
        yield Bar(
            number * BAR_WIDTH, HEIGHT - height, height, query if point.episodes else "", title
        )


@register.simple_tag
def shares(causes: Mapping[str, int]) -> list[Share]:
    """Return each ending's share along a line of SHARES_WIDTH. Small shares are widened so that
    they are visible."""
    total = sum(causes.values())
    wide = [max(count / total * SHARES_WIDTH, MIN_SHARE_WIDTH) for count in causes.values()]
    scale = SHARES_WIDTH / (sum(wide) or 1)
    parts, x = [], 0.0
    for (cause, count), width in zip(causes.items(), wide, strict=True):
        parts.append(Share(cause, round(x, 1), round(width * scale, 1), count, count / total * 100))
        x += width * scale
    return parts
