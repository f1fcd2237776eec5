"""Summaries as rows: the columns that CurveBlock, RunTotal and StepSpan have in common, written and read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import repeat
from operator import attrgetter
from typing import Any, NamedTuple

from django.db import connection

from environments.database.bulk_writer import BulkWriter, Values
from environments.scoring.returns import RETURNS
from episodes.attempts.endings import Ending, Epoch, rows_of
from episodes.attempts.rule import EXPIRED_KINDS, OWN_KINDS
from episodes.attempts.sketches import Sketch, sketch_of
from episodes.attempts.summary import CallCounts, Distributions, Summary, returns_sketch, together
from episodes.models.rollups import Summed

RETURN_COLUMNS = tuple(f"return_{name}" for name in RETURNS)
COLUMNS = (
    *("first_end", "last_end", "began", "ended", "episodes", "causes", "steps"),
    *(*RETURN_COLUMNS, "length", "failed", "refused", "scatter", "expired"),
)
"""Columns of such a row, besides those that identify it."""
_returns = attrgetter(*RETURN_COLUMNS)


class RollupSummary(NamedTuple):
    """The content of a row: a summary by every definition of return, and totals that need no
    definition."""

    summary: Summary
    began: float
    """Time at which the first of its episodes ended, in seconds since the epoch."""
    ended: float
    """Time at which the last of its episodes ended, in seconds since the epoch."""
    steps: int
    """Steps that ran in the episodes that finished or were abandoned."""

    def compressed(self, edges: Sequence[float]) -> RollupSummary:
        return self._replace(summary=self.summary.compressed(edges))

    def without(self, endings: Sequence[Ending]) -> RollupSummary:
        """Return the summary without these endings, which are among its own. Its range and times
        stay."""
        rest = summary_of(endings)
        return self._replace(
            summary=self.summary.without(rest.summary), steps=self.steps - rest.steps
        )


def summary_of(endings: Sequence[Ending]) -> RollupSummary:
    """Summarize one ending or more, in their order; the sketches are exact."""
    times = [ending.ended for ending in endings]
    own = [ending for ending in endings if ending.kind in OWN_KINDS]
    expirations = [ending for ending in endings if ending.kind in EXPIRED_KINDS]
    summary = Summary(
        first_end=min([ending.number for ending in endings]),
        last_end=max([ending.number for ending in endings]),
        episodes=len(endings),
        causes=dict(Counter([ending.kind for ending in endings])),
        own=_distributions(own),
        expired=_distributions(expirations) if expirations else None,
    )
    return RollupSummary(summary, min(times), max(times), sum([ending.steps for ending in own]))


def _distributions(endings: Sequence[Ending]) -> Distributions:
    columns = zip(*map(_returns, endings), strict=True) if endings else repeat(())
    returns = {name: returns_sketch(values) for name, values in zip(RETURNS, columns, strict=False)}
    calls = CallCounts(
        sum([ending.failed for ending in endings]), sum([ending.refused for ending in endings])
    )
    return Distributions(returns, sketch_of([float(ending.steps) for ending in endings]), calls)


def merged(parts: Sequence[RollupSummary]) -> RollupSummary:
    """Merge one summary or more."""
    return RollupSummary(
        together([part.summary for part in parts]),
        min([part.began for part in parts]),
        max([part.ended for part in parts]),
        sum([part.steps for part in parts]),
    )


def shrink(model: type[Summed], rows: Mapping[int, Sequence[Ending]]) -> None:
    """Take endings out of the rows with these ids, which hold them. Called within a transaction."""
    writer = BulkWriter(connection)
    summaries = model._default_manager.filter(pk__in=rows).values_list("pk", *columns_read())
    fresh = [
        (*values_of(read_summary(row).without(rows[pk]), writer), pk)
        for pk, *row in rows_of(summaries)
    ]
    writer.update(model, COLUMNS, fresh)


def columns_read() -> list[Any]:
    """Return COLUMNS as `read_summary` takes them: moments as seconds."""
    return [Epoch(name) if name in ("began", "ended") else name for name in COLUMNS]


def read_summary(row: Sequence[Any]) -> RollupSummary:
    """Return the summary in a row of `columns_read`."""
    first_end, last_end, began, end, episodes, causes, steps, *texts = row
    *sketches, failed_count, refused_count, scatters, late = texts
    own = [json.loads(text) for text in sketches]
    own += [failed_count, refused_count, json.loads(scatters or "{}")]
    summary = Summary(
        first_end=first_end,
        last_end=last_end,
        episodes=episodes,
        causes=json.loads(causes),
        own=_read(own),
        expired=_read(json.loads(late)) if late else None,
    )
    return RollupSummary(summary, began, end, steps)


def _read(values: Sequence[Any]) -> Distributions:
    """Return the distributions with these sketches of returns and lengths, numbers of calls, and
    scatters."""
    *returns, lengths, failed_count, refused_count, scatters = values
    calls = CallCounts(failed_count, refused_count)
    return Distributions(dict(zip(RETURNS, returns, strict=True)), lengths, calls, scatters)


def values_of(rollup: RollupSummary, writer: BulkWriter) -> Values:
    """Return the values of COLUMNS."""
    summary, own, late = rollup.summary, rollup.summary.own, rollup.summary.expired
    expirations = ""
    if late:
        expirations = _compact_json([*_sketches(late), *late.calls, late.scatters])
    return (
        *(summary.first_end, summary.last_end),
        *(writer.time(rollup.began), writer.time(rollup.ended)),
        *(summary.episodes, _compact_json(summary.causes), rollup.steps),
        *map(_compact_json, _sketches(own)),
        *own.calls,
        _compact_json(own.scatters) if own.scatters else "",
        expirations,
    )


def _sketches(distributions: Distributions) -> list[Sketch]:
    return [*(distributions.returns[name] for name in RETURNS), distributions.lengths]


def _compact_json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
