"""Stores the scalars that a trainer reports, such as its loss at each training step.

A chunk has neighbouring points. A report changes the last one or two of each series, so that its
cost does not depend on how many points a series has; a value that comes again replaces the first.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence

from django.db.models import QuerySet

from environments.database.json_rows import among
from environments.filtering.parameters import BadFilter
from episodes.models import Run, ScalarChunk, ScalarSeries
from episodes.runs.scalar_summaries import POINT, packed, summary_of_point, thinned

MAX_NAMES = 500
"""Scalars of a run."""
CHUNK_POINTS = 1024
SPAN_POINTS = 128
GROUP_POINTS = 16

StepScalars = tuple[int, Mapping[str, float]]
"""A training step, and the values at it by name; NaN and infinities are values."""


def store_scalars(run: Run, points: Sequence[StepScalars]) -> None:
    """Store the values; those of the same steps and names are replaced. Call it within a
    transaction that has locked the run. Raises: BadFilter."""
    values: dict[str, dict[int, float]] = defaultdict(dict)
    for step, scalars in points:
        for name, value in scalars.items():
            values[name][step] = value
    series = {row.name: row for row in ScalarSeries.objects.filter(run=run, name__in=values)}
    new = [name for name in values if name not in series]
    if new and run.scalars.count() + len(new) > MAX_NAMES:
        raise BadFilter("scalars", new[0], f"a run has at most {MAX_NAMES} scalars")
    rows = ScalarSeries.objects.bulk_create(ScalarSeries(run=run, name=name) for name in new)
    series |= {row.name: row for row in rows}
    stale, fresh = list[ScalarChunk](), list[ScalarChunk]()
    for name, by_step in values.items():
        old, chunks = _changes(series[name], by_step)
        _count(series[name], old, chunks, by_step)
        stale += old
        fresh += chunks
    ScalarChunk.objects.filter(pk__in=[chunk.pk for chunk in stale]).delete()
    ScalarChunk.objects.bulk_create(fresh, batch_size=100)
    ScalarSeries.objects.bulk_update(
        series.values(), ["points", "gaps", "last_step", "last"], batch_size=100
    )


def _changes(
    series: ScalarSeries, values: Mapping[int, float]
) -> tuple[list[ScalarChunk], list[ScalarChunk]]:
    """Return the chunks that get these values, and those that replace them."""
    chunks: QuerySet[ScalarChunk] = series.chunks.order_by("start")
    low, high = min(values), max(values)
    starts = chunks.values_list("start", flat=True)
    first: int | None = starts.filter(start__lte=low).last()
    first = starts.first() if first is None else first
    if first is None:
        return [], _chunks(series, values, CHUNK_POINTS)
    others = starts.filter(start__gt=first, start__lte=high) if high > low else ()
    places = [first, *others]
    parts: dict[int, dict[int, float]] = defaultdict(dict)
    for step, value in values.items():
        parts[places[max(0, bisect_right(places, step) - 1)]][step] = value
    stale, fresh = list(chunks.filter(among("start", list(parts)))), list[ScalarChunk]()
    for chunk in stale:
        content = dict(POINT.iter_unpack(chunk.values)) | parts[chunk.start]
        size = CHUNK_POINTS
        if chunk.end < series.last_step:  # no chunk of a few points remains in the middle
            size = math.ceil(len(content) / math.ceil(len(content) / CHUNK_POINTS))
        fresh += _chunks(series, content, size)
    return stale, fresh


def _chunks(series: ScalarSeries, values: Mapping[int, float], size: int) -> list[ScalarChunk]:
    """Return chunks of `size` points of these."""
    rows, chunks = sorted(values.items()), list[ScalarChunk]()
    for place in range(0, len(rows), size):
        points = rows[place : place + size]
        groups = thinned([summary_of_point(*point) for point in points], GROUP_POINTS)
        spans = thinned(groups, SPAN_POINTS // GROUP_POINTS)
        [whole] = thinned(spans, len(spans))
        chunks.append(
            ScalarChunk(
                series=series,
                **whole._asdict(),
                spans=packed(spans),
                groups=packed(groups),
                values=b"".join([POINT.pack(*point) for point in points]),
            )
        )
    return chunks


def _count(
    series: ScalarSeries,
    stale: Sequence[ScalarChunk],
    fresh: Sequence[ScalarChunk],
    values: Mapping[int, float],
) -> None:
    """Change the row of the series as `fresh` replaces `stale`. `values`: those that came."""
    for chunks, sign in ((stale, -1), (fresh, 1)):
        series.points += sign * sum(chunk.numbers + chunk.gaps for chunk in chunks)
        series.gaps += sign * sum(chunk.gaps for chunk in chunks)
    step = max(values)
    if step >= series.last_step:
        series.last_step = step
        series.last = values[step] if math.isfinite(values[step]) else None
