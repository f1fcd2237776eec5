"""Curves of scalars: what was reported, with as many points as a picture has room for."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import F, Sum

from environments.database.json_rows import among
from environments.runtime.records import MAX_TRAINING_STEP
from episodes.attempts.endings import rows_of
from episodes.models import ScalarChunk, ScalarSeries
from episodes.runs.scalar_summaries import (
    POINT,
    ScalarSummary,
    summary_of_point,
    thinned,
    unpacked,
)
from episodes.runs.scalars import GROUP_POINTS, SPAN_POINTS

MAX_POINTS = 300
"""Points of a curve unless more are wanted: a chart of 1,000 pixels has no room for others."""
MAX_READ = 40_000
"""Points and summaries that are read for one picture, which takes about 50 ms."""


@dataclass(frozen=True, slots=True)
class ScalarCurve:
    series: ScalarSeries
    points: Sequence[ScalarSummary]
    """Those of the part of the axis that is shown, in the order of steps."""


def scalar_curves(
    series: Sequence[ScalarSeries],
    points: int = MAX_POINTS,
    low: float | None = None,
    high: float | None = None,
) -> list[ScalarCurve]:
    """Return a curve of each series, with at most `points` points between the steps `low` and
    `high`. The number of queries does not depend on that of the series.

    Each point is a value as it was reported if the curves have few of them, else a summary.
    """
    first = max(0, math.ceil(low)) if low is not None and low < MAX_TRAINING_STEP else 0
    last = MAX_TRAINING_STEP
    if high is not None and high < last:
        last = max(-1, math.floor(high))
    chunks = ScalarChunk.objects.filter(
        among("series_id", [row.pk for row in series]), start__lte=last, end__gte=first
    ).order_by("series_id", "start")
    count = sum([row.points for row in series])
    if low is not None or high is not None:
        count = chunks.aggregate(count=Sum(F("numbers") + F("gaps")))["count"] or 0
    parts: dict[int, list[ScalarSummary]] = defaultdict(list)
    if count <= MAX_READ:
        for pk, content in chunks.values_list("series_id", "values"):
            parts[pk] += [summary_of_point(*point) for point in POINT.iter_unpack(content)]
    elif count / SPAN_POINTS <= MAX_READ:
        field = "groups" if count / GROUP_POINTS <= MAX_READ else "spans"
        for pk, content in chunks.values_list("series_id", field):
            parts[pk] += unpacked(content)
    else:
        for pk, *summary in rows_of(chunks.values_list("series_id", *ScalarSummary._fields)):
            parts[pk].append(ScalarSummary._make(summary))
    curves = list[ScalarCurve]()
    for row in series:
        within = [part for part in parts[row.pk] if part.end >= first and part.start <= last]
        curves.append(ScalarCurve(row, thinned(within, max(1, math.ceil(len(within) / points)))))
    return curves
