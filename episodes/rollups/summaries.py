"""Summaries as rows: the columns that CurveBlock and StepSpan have in common, written and read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from environments.database.bulk_writer import BulkWriter, Values
from environments.scoring.returns import RETURNS
from episodes.attempts.endings import Ending, Epoch
from episodes.attempts.sketches import sketch_of
from episodes.attempts.summary import Summary, returns_sketch, together

RETURN_COLUMNS = tuple(f"return_{name}" for name in RETURNS)
COLUMNS = (
    *("first_end", "last_end", "began", "ended", "episodes", "attempts", "causes", "steps"),
    *(*RETURN_COLUMNS, "length"),
)
"""Columns of a CurveBlock or StepSpan, besides those that identify it."""


class RollupSummary(NamedTuple):
    """The content of a row: a summary by every definition of return, and totals that need no definition."""

    summary: Summary
    began: float
    """Time at which the first of its episodes ended, in seconds since the epoch."""
    ended: float
    """Time at which the last of its episodes ended, in seconds since the epoch."""
    steps: int
    """Steps that ran in its attempts."""

    def compressed(self, edges: Sequence[float]) -> RollupSummary:
        return self._replace(summary=self.summary.compressed(edges))


def summary_of(endings: Sequence[Ending]) -> RollupSummary:
    """Summarize one ending or more, in their order; the sketches are exact."""
    attempts = [ending for ending in endings if ending.is_attempt]
    times = [ending.ended for ending in endings]
    summary = Summary(
        first_end=min([ending.number for ending in endings]),
        last_end=max([ending.number for ending in endings]),
        episodes=len(endings),
        attempts=len(attempts),
        causes=dict(Counter([ending.kind for ending in endings])),
        returns={
            "sum": returns_sketch([ending.return_sum for ending in attempts]),
            "last": returns_sketch([ending.return_last for ending in attempts]),
            "max": returns_sketch([ending.return_max for ending in attempts]),
            "mean": returns_sketch([ending.return_mean for ending in attempts]),
        },
        lengths=sketch_of([float(ending.steps) for ending in attempts]),
    )
    return RollupSummary(summary, min(times), max(times), sum([ending.steps for ending in attempts]))


def merged(parts: Sequence[RollupSummary]) -> RollupSummary:
    """Merge one summary or more."""
    return RollupSummary(
        together([part.summary for part in parts]),
        min([part.began for part in parts]),
        max([part.ended for part in parts]),
        sum([part.steps for part in parts]),
    )


def columns_read() -> list[Any]:
    """Return COLUMNS as `read_summary` takes them: moments as seconds."""
    return [Epoch(name) if name in ("began", "ended") else name for name in COLUMNS]


def read_summary(row: Sequence[Any]) -> RollupSummary:
    """Return the summary in a row of `columns_read`."""
    first_end, last_end, began, ended, episodes, attempts, causes, steps, *texts = row
    *returns, lengths = [json.loads(text) for text in texts]
    summary = Summary(
        first_end=first_end,
        last_end=last_end,
        episodes=episodes,
        attempts=attempts,
        causes=json.loads(causes),
        returns=dict(zip(RETURNS, returns, strict=True)),
        lengths=lengths,
    )
    return RollupSummary(summary, began, ended, steps)


def values_of(rollup: RollupSummary, writer: BulkWriter) -> Values:
    """Return the values of COLUMNS."""
    summary = rollup.summary
    sketches = [*(summary.returns[name] for name in RETURNS), summary.lengths]
    return (
        *(summary.first_end, summary.last_end, writer.time(rollup.began), writer.time(rollup.ended)),
        *(summary.episodes, summary.attempts, _compact_json(summary.causes), rollup.steps),
        *(_compact_json(sketch) for sketch in sketches),
    )


def _compact_json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
