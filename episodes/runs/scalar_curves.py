"""Curves of scalars: what was reported, with as many points as a picture has room for."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from django.db.models import Case, F, FloatField, Max, Min, Q, QuerySet, Sum, Value, When

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
MAX_SHARE = 2.0**40
"""Values that are added up together, at most."""


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
        last_step = min(last, max(row.last_step for row in series))
        for pk, summary in _summaries_of_chunks(chunks, last_step, points):
            parts[pk].append(summary)
    curves = list[ScalarCurve]()
    for row in series:
        within = [part for part in parts[row.pk] if part.end >= first and part.start <= last]
        curves.append(ScalarCurve(row, thinned(within, max(1, math.ceil(len(within) / points)))))
    return curves


def _summaries_of_chunks(
    chunks: QuerySet[ScalarChunk], last: int, points: int
) -> Iterator[tuple[int, ScalarSummary]]:
    """Yield the id of a series and a summary of neighbouring chunks, at most `points` of each, in
    the order of steps up to `last`. The database adds them up: there are thousands."""
    first: int = chunks.aggregate(first=Min("start"))["first"] or 0
    width = max(1, math.ceil((last + 1 - first) / max(1, points - 1)))
    is_number = Q(numbers__gt=0)
    # a sum of means could be above 1.8e308, and PostgreSQL refuses a share that is nearly 0
    share = Case(
        When(mean__range=(-1e-290, 1e-290), then=Value(0.0)),
        default=F("mean") / MAX_SHARE * F("numbers"),
    )
    rows = (
        chunks.order_by()
        .annotate(place=F("start") / width)
        .values("series_id", "place")
        .annotate(
            first=Min("start"),
            last=Max("end"),
            count=Sum("numbers"),
            lost=Sum("gaps"),
            lowest=Min("low", filter=is_number),
            middle=Sum(share, output_field=FloatField()),
            highest=Max("high", filter=is_number),
        )
        .order_by("series_id", "place")
        .values_list("series_id", "first", "last", "count", "lost", "lowest", "middle", "highest")
    )
    for pk, first, last, count, gaps, low, middle, high in rows_of(rows):
        if count:
            mean = min(max(middle / count * MAX_SHARE, low), high)
            yield pk, ScalarSummary(first, last, int(count), int(gaps), low, mean, high)
        else:
            yield pk, ScalarSummary(first, last, 0, int(gaps), 0.0, 0.0, 0.0)
