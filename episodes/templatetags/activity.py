"""Bars of the overview as inline SVG: what happened in each minute, hour or day, and endings by their share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from django import template
from django.utils.http import urlencode

from episodes.activity import Bucket, Lately

register = template.Library()

BAR_WIDTH = 10
HEIGHT = 100
LEAST_HEIGHT = 3
"""So that one episode among thousands is still seen."""
SHARES_WIDTH = 1000
LEAST_SHARE = 8


class Bar(NamedTuple):
    x: int
    y: float
    height: float
    query: str
    """Of the episodes behind it; empty without any."""
    title: str


class Share(NamedTuple):
    cause: str
    x: float
    width: float
    number: int
    percent: float


@register.inclusion_tag("episodes/bars.html")
def bars(lately: Lately, figure: str, episodes_url: str) -> dict[str, Any]:
    """`figure`: "episodes" or "steps", by bucket; each bar leads to the episodes that ended then."""
    values = [getattr(bucket, figure) for bucket in lately.buckets]
    return {
        "bars": list(_bars(lately.buckets, values, figure)),
        "width": BAR_WIDTH * len(values),
        "height": HEIGHT,
        "most": max(values),
        "figure": figure,
        "lately": lately,
        "episodes_url": episodes_url,
    }


def _bars(buckets: Sequence[Bucket], values: Sequence[int], figure: str) -> Iterator[Bar]:
    most = max(values) or 1
    for number, (bucket, value) in enumerate(zip(buckets, values, strict=True)):
        height = max(value * HEIGHT / most, LEAST_HEIGHT) if value else 0.0
        times = {"since": f"{bucket.start:%Y-%m-%dT%H:%M:%SZ}", "until": f"{bucket.until:%Y-%m-%dT%H:%M:%SZ}"}
        title = f"{value:,} {figure}, {bucket.start:%b %d %H:%M} to {bucket.until:%H:%M} UTC"
        yield Bar(number * BAR_WIDTH, HEIGHT - height, height, urlencode(times) if bucket.episodes else "", title)


@register.simple_tag
def shares(endings: Sequence[tuple[str, int]]) -> list[Share]:
    """Of each ending along a line of SHARES_WIDTH; small ones are widened until they can be seen."""
    total = sum(count for _, count in endings)
    wide = [max(count / total * SHARES_WIDTH, LEAST_SHARE) for _, count in endings]
    scale = SHARES_WIDTH / (sum(wide) or 1)
    found, x = [], 0.0
    for (cause, count), width in zip(endings, wide, strict=True):
        found.append(Share(cause, round(x, 1), round(width * scale, 1), count, count / total * 100))
        x += width * scale
    return found
