"""Curves: return, success and length over episodes, time or training steps, as at most 500 points.

A scope of up to some 12,000 endings is read one by one; of a larger one blocks are put together, so a curve over a
million episodes costs what one over 60,000 does. Read by pages and the API.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

from episodes.analytics.cover import Block, Cover, cover
from episodes.analytics.definition import Definition
from episodes.analytics.figures import Figures, figures_of
from episodes.analytics.scope import MOST_ENDINGS, Scope
from episodes.analytics.zoom import Axis, Range, zoomed
from episodes.endings import Ending
from episodes.statistics import FAILURES
from episodes.summary import Summary, summary_of, together

MOST_POINTS = 500
MOST_SCOPES = 40
"""Drawn together."""
EPISODES_A_POINT = 8
"""Where there are enough of them for FEW_POINTS, so that a point's band and rate say something."""
FEW_POINTS = 24
NO_ATTEMPTS = (*FAILURES, "probe")
_FIGURES = tuple(field.name for field in fields(Figures))


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint(Figures):
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
    """Endings by cause, probes as "probe"."""


@dataclass(frozen=True, slots=True)
class Curve:
    scope: Scope
    definition: Definition
    axis: Axis
    points: Sequence[CurvePoint]
    """In order of x, none empty; one may hold failures and probes alone."""
    total: Figures | None
    """Of all that is shown; None without an ending."""
    excluded: dict[str, int]
    """Probes and failures of the machinery, by cause, most first: they count in no other figure."""
    is_bounded: bool
    """Whether older episodes are missing; `note` says why."""
    note: str
    """What a page says beside it; empty: nothing."""


class _Unit(NamedTuple):
    """What is put into one point or another: a block, or endings that stand alone."""

    low: float
    high: float
    block: Summary | None = None
    ending: Ending | None = None


def curve(
    scope: Scope,
    definition: Definition,
    axis: Axis = "episode",
    *,
    points: int = MOST_POINTS,
    shown: Range | None = None,
) -> Curve:
    """`shown`: of the axis, so that a zoom is as fine as can be; by time in seconds since the epoch."""
    if shown is None:
        return curves([scope], definition, axis, points=points)[0]
    found = zoomed(scope, [definition.column, "length"], axis, shown)
    return _curve(scope, definition, axis, _Asked(points, shown), found)


def curves(
    scopes: Sequence[Scope], definition: Definition, axis: Axis = "episode", *, points: int = MOST_POINTS
) -> list[Curve]:
    """Of MOST_SCOPES at most, to be drawn over each other; about as many queries as for one."""
    found = cover(scopes[:MOST_SCOPES], [definition.column, "length"])
    asked = _Asked(points, Range())
    return [_curve(scope, definition, axis, asked, one) for scope, one in zip(scopes, found, strict=False)]


class _Asked(NamedTuple):
    points: int
    shown: Range


def _curve(scope: Scope, definition: Definition, axis: Axis, asked: _Asked, found: Cover) -> Curve:
    units = [unit for unit in _units(found, axis) if asked.shown.holds(unit.low, unit.high)]
    groups = [_summary(group, definition) for group in _groups(units, axis, asked.points)]
    summaries = [summary for _, _, summary in groups]
    total = together(summaries) if summaries else None
    causes = Counter(total.causes if total else {})
    return Curve(
        scope=scope,
        definition=definition,
        axis=axis,
        points=[_point(*group, definition) for group in groups],
        total=figures_of(total, definition) if total else None,
        excluded={cause: count for cause, count in causes.most_common() if cause in NO_ATTEMPTS},
        is_bounded=found.is_bounded,
        note=_note(scope, found, axis),
    )


def _units(found: Cover, axis: Axis) -> list[_Unit]:
    """In order of the axis. By step without those that belong to none."""
    if axis == "episode":
        blocks = [_Unit(one.first, one.first + one.summary.episodes, block=one.summary) for one in found.blocks]
        return blocks + [
            _Unit(place, place + 1, ending=ending) for place, ending in enumerate(found.endings, found.first)
        ]
    if axis == "time":
        units = [_Unit(one.summary.began, one.summary.ended, block=one.summary) for one in found.blocks]
        units += [_Unit(ending.ended, ending.ended, ending=ending) for ending in found.endings]
    else:
        units = [_by_step(one) for one in found.blocks if one.summary.run_step_low is not None]
        units += [
            _Unit(ending.run_step, ending.run_step, ending=ending)
            for ending in found.endings
            if ending.run_step is not None
        ]
    return sorted(units, key=lambda unit: unit.low + unit.high)


def _by_step(block: Block) -> _Unit:
    return _Unit(block.summary.run_step_low or 0, block.summary.run_step_high or 0, block=block.summary)


def _groups(units: Sequence[_Unit], axis: Axis, points: int) -> list[list[_Unit]]:
    """Of neighbours; `points` at most, each of one or more."""
    if not units:
        return []
    places = [(unit.low + unit.high) / 2 for unit in units]
    begin, end = min(unit.low for unit in units), max(unit.high for unit in units)
    episodes = sum(unit.block.episodes if unit.block else 1 for unit in units)
    if axis == "step":
        points = min(points, int(end - begin) + 1)
    elif episodes == len(units):
        points = min(points, max(FEW_POINTS, episodes // EPISODES_A_POINT))
    width = (end - begin + (axis == "step")) / max(1, points) or 1.0
    if axis != "time":
        width = math.ceil(width)
    found: dict[int, list[_Unit]] = {}
    for unit, place in zip(units, places, strict=True):
        found.setdefault(min(points - 1, int((place - begin) / width)), []).append(unit)
    return list(found.values())


def _summary(units: Sequence[_Unit], definition: Definition) -> tuple[float, float, Summary]:
    """With where it begins and ends."""
    parts = [unit.block for unit in units if unit.block]
    if endings := [unit.ending for unit in units if unit.ending]:
        parts.append(summary_of(endings, (definition.column, "length")))
    return min(unit.low for unit in units), max(unit.high for unit in units), together(parts)


def _point(low: float, high: float, summary: Summary, definition: Definition) -> CurvePoint:
    figures = figures_of(summary, definition)
    return CurvePoint(
        **{name: getattr(figures, name) for name in _FIGURES},
        x=low,
        x_to=high,
        first_end=summary.first_end,
        last_end=summary.last_end,
        causes=summary.causes,
    )


def _note(scope: Scope, found: Cover, axis: Axis) -> str:
    notes: list[str] = [scope.note] if scope.note else []
    if found.is_bounded and scope.has_blocks:
        notes.append("Older episodes are still being counted; the curve will be whole in a moment.")
    elif found.is_bounded:
        notes.append(f"Only the newest {MOST_ENDINGS:,} episodes were looked at.")
    if axis == "step" and found.blocks:
        notes.append("Of so many episodes neighbouring training steps may share a point.")
    return " ".join(notes)
