"""Curves: return, success and length over episodes, time or training steps, as at most 500 points.

A scope of up to 10,000 endings is read one by one; of a larger one blocks are put together, so a curve over a
million episodes costs what one over 60,000 does. Read by pages and the API.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

from environments.scoring.definition import Definition
from environments.scoring.returns import Return
from episodes.analytics.error_bounds import sentence_of, slack_of
from episodes.analytics.figures import EndingRow, ScopeFigures, figures_of, summary_of
from episodes.analytics.scopes import MAX_ENDINGS, Scope
from episodes.analytics.stored import Axis
from episodes.analytics.summary_cover import SummaryCover, cover
from episodes.analytics.zoom import Range, zoomed
from episodes.attempts.rule import is_attempt
from episodes.attempts.summary import Summary, together

MAX_POINTS = 500
MAX_SCOPES = 40
"""Drawn together."""
EPISODES_A_POINT = 8
"""Where there are enough of them for FEW_POINTS, so that a point's band and rate say something."""
FEW_POINTS = 24
_FIGURES = tuple(field.name for field in fields(ScopeFigures))


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint(ScopeFigures):
    x: float
    """Where it begins. By episode: 0-based place of its first within the scope; by time: seconds since the epoch at
    which the first of them ended; by step: the lowest training step."""
    x_to: float
    """Where it ends: place after the last; the last's time; the highest step."""
    first_end: int
    """`end_number` of its first episode: with `last_end` and the scope a filter finds the episodes behind it, and, by
    time or step, at times a few of the neighbours."""
    last_end: int
    causes: dict[str, int]
    """Endings by kind, as `endings.py` says."""


@dataclass(frozen=True, slots=True)
class Curve:
    scope: Scope
    definition: Definition
    axis: Axis
    points: Sequence[CurvePoint]
    """In order of x, none empty; one may hold failures and probes alone."""
    total: ScopeFigures | None
    """Of all that is shown; None without an ending."""
    excluded: dict[str, int]
    """Probes, continuations and failures of the machinery, by cause, most first: they count in no other figure."""
    stepless: int
    """By training step, all of it: endings that are left out, for they say none."""
    is_bounded: bool
    """Whether older episodes are missing; `note` says why."""
    note: str
    """What a page says beside it; empty: nothing."""


def curve(
    scope: Scope,
    definition: Definition,
    axis: Axis = "episode",
    *,
    points: int = MAX_POINTS,
    shown: Range | None = None,
) -> Curve:
    """`shown`: of the axis, so that a zoom is as fine as can be; by time in seconds since the epoch."""
    if shown is None or shown == Range():
        return curves([scope], definition, axis, points=points)[0]
    found = zoomed(scope, definition, axis, shown)
    return _curve(scope, definition, axis, _Asked(points, shown), found)


def curves(
    scopes: Sequence[Scope],
    definition: Definition,
    axis: Axis = "episode",
    *,
    points: int = MAX_POINTS,
    least_blocks: int | None = None,
) -> list[Curve]:
    """Of MAX_SCOPES at most, to be drawn over each other; about as many queries as for one.

    `least_blocks`: of each long one; None: as many as make a fine curve (`cover.py`).
    """
    found = cover(scopes[:MAX_SCOPES], definition, axis, least_blocks=least_blocks)
    return [drawn(*each, definition, axis, points=points) for each in zip(scopes, found, strict=False)]


def drawn(scope: Scope, found: SummaryCover, definition: Definition, axis: Axis, *, points: int = MAX_POINTS) -> Curve:
    """The curve of what `cover` read for this scope, axis and return; only the threshold may have changed since."""
    return _curve(scope, definition, axis, _Asked(points, Range()), found)


class _Asked(NamedTuple):
    points: int
    shown: Range


class _Group(NamedTuple):
    """What becomes a point."""

    low: float
    high: float
    summary: Summary


def _curve(scope: Scope, definition: Definition, axis: Axis, asked: _Asked, found: SummaryCover) -> Curve:
    units = _units(found, axis, asked.shown)
    # single endings that no span holds yet may lie within one
    groups = sorted(
        [_group(part, axis, definition.return_) for part in _parts(units, axis, asked.points)],
        key=lambda group: group.low,
    )
    total = together([group.summary for group in groups]) if groups else None
    causes = Counter(total.causes if total else {})
    return Curve(
        scope=scope,
        definition=definition,
        axis=axis,
        points=[_point(group, definition) for group in groups],
        total=figures_of(total, definition) if total else None,
        excluded={cause: count for cause, count in causes.most_common() if not is_attempt(cause)},
        is_bounded=found.is_bounded,
        stepless=found.stepless if asked.shown == Range() else 0,
        note=_note(scope, found, axis, sentence_of(slack_of(found, definition), definition)),
    )


class _Units(NamedTuple):
    """What is shared out to points, with where each begins and ends."""

    blocks: list[tuple[float, float, Summary]]
    rows: list[tuple[float, EndingRow]]

    @property
    def ends(self) -> tuple[float, float]:
        """Of one unit or more."""
        begins = [low for low, _, _ in self.blocks] + [place for place, _ in self.rows]
        return min(begins), max([high for _, high, _ in self.blocks] + [place for place, _ in self.rows])


def _units(found: SummaryCover, axis: Axis, shown: Range) -> _Units:
    """Those within `shown`."""
    blocks = [(one.low, one.high, one.summary) for one in found.blocks]
    rows: list[tuple[float, EndingRow]]
    if axis == "episode":
        rows = list(enumerate(found.rows, found.first))
    else:
        rows = [(row[4], row) for row in found.rows if row[4] is not None]
    if shown != Range():
        blocks = [block for block in blocks if shown.holds(block[0], block[1])]
        rows = [row for row in rows if shown.holds(row[0], row[0])]
    return _Units(blocks, rows)


def _most_points(units: _Units, axis: Axis) -> int:
    """How many to draw: each shall have some episodes, and the newest, which no large block holds yet, as many."""
    sizes = [summary.episodes for _, _, summary in units.blocks]
    if not sizes or axis == "step":  # of training steps some may have many more than others
        return max(FEW_POINTS, (sum(sizes) + len(units.rows)) // EPISODES_A_POINT)
    return math.ceil((sum(sizes) + len(units.rows)) / max(sizes))


Part = tuple[list[tuple[float, float, Summary]], list[tuple[float, EndingRow]]]
"""Blocks, each with where it begins and ends, and single endings, each with its place: what becomes a point."""


def parts_of(found: SummaryCover, points: int) -> list[Part]:
    """All of it by episode, in order: `points` parts at most, none of them empty."""
    return _parts(_units(found, "episode", Range()), "episode", points)


def _parts(units: _Units, axis: Axis, points: int) -> list[Part]:
    """Neighbours together, in order: `points` parts at most, none of them empty."""
    if not (units.blocks or units.rows):
        return []
    begin, end = units.ends
    points = min(points, _most_points(units, axis))
    if axis == "step":
        points = min(points, int(end - begin) + 1)
    span = end - begin if axis == "time" else end - begin + 1
    width = span / points or 1.0
    if axis != "time":
        width = math.ceil(width)
    found: dict[int, Part] = {}
    for block in units.blocks:
        found.setdefault(min(points - 1, int(((block[0] + block[1]) / 2 - begin) / width)), ([], []))[0].append(block)
    for row in units.rows:
        found.setdefault(min(points - 1, int((row[0] - begin) / width)), ([], []))[1].append(row)
    return [found[place] for place in sorted(found)]


def _group(part: Part, axis: Axis, return_: Return) -> _Group:
    blocks, rows = part
    summaries = [summary for _, _, summary in blocks]
    if rows:
        summaries.append(summary_of([row for _, row in rows], return_))
    reach = 1 if axis == "episode" else 0  # of a single ending
    low = min([low for low, _, _ in blocks] + [place for place, _ in rows])
    high = max([high for _, high, _ in blocks] + [place + reach for place, _ in rows])
    return _Group(low, high, together(summaries))


def _point(group: _Group, definition: Definition) -> CurvePoint:
    figures, summary = figures_of(group.summary, definition), group.summary
    return CurvePoint(
        **{name: getattr(figures, name) for name in _FIGURES},
        x=group.low,
        x_to=group.high,
        first_end=summary.first_end,
        last_end=summary.last_end,
        causes=dict(summary.causes),
    )


def _note(scope: Scope, found: SummaryCover, axis: Axis, slack: str) -> str:
    notes: list[str] = [scope.note] if scope.note else []
    if found.is_bounded and scope.has_blocks:
        notes.append("Older episodes are still being counted; the curve will be whole in a moment.")
    elif found.is_bounded:
        notes.append(f"Only the newest {MAX_ENDINGS:,} episodes were looked at.")
    if axis == "step" and any(span.low != span.high for span in found.blocks):
        notes.append("Of so many episodes neighbouring training steps may share a point.")
    return " ".join([*notes, slack] if slack else notes)
