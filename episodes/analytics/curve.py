"""Curves of return, success and length over episodes, time or training steps, as 500 points at
most.

Pages and the API draw them. The endings of a scope with up to 10,000 of them are read one by one.
For a larger scope blocks are merged, so that a curve over a million episodes costs as much as one
over 60,000.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import NamedTuple

from environments.filtering.parameters import MAX_RANGES, WholeRange, WholeRanges
from environments.scoring.convention import by_cause, counts_added
from environments.scoring.definition import Definition, Definitions
from episodes.analytics.block_queries import Axis, StoredBlock, groups_by_step
from episodes.analytics.error_bounds import error_bound_of, sentence_of
from episodes.analytics.figures import (
    EndingRow,
    ScopeFigures,
    by_definition_together,
    excluded_of,
    judged,
)
from episodes.analytics.scopes import Scope
from episodes.analytics.summary_cover import SummaryCover, cover
from episodes.analytics.zoom import Range, zoomed
from episodes.attempts.group_states import GroupCount, GroupCounter, GroupTally, counts_together
from episodes.attempts.summary import JudgedSummary

MAX_POINTS = 500
MAX_SCOPES = 40
"""Maximum number of scopes that are drawn together."""
EPISODES_A_POINT = 8
"""Episodes of a point on average, if there are enough for MIN_POINTS, so that its band and rate
mean something."""
MIN_POINTS = 24


class CurvePoint(ScopeFigures):
    def __init__(self, group: _Group, count: GroupCount | None) -> None:
        """`count`: groups of its endings; None where groups are not counted."""
        super().__init__(group.summaries)
        self.x = group.low
        """Start of the point. By episode: 0-based place of its first episode within the scope; by
        time: when that episode ended, in seconds since the epoch; by step: its lowest training
        step."""
        self.x_to = group.high
        """End of the point: the place after its last episode; when that ended; or its highest
        training step."""
        self.first_end = group.first_end
        """`end_number` of its first episode."""
        self.last_end = group.last_end
        self.ends = group.ends
        """Ranges of `end_number` within which the scope has exactly the episodes of the point, by
        step together with the point's training steps. By time there may be several, because
        episodes that were imported end late in this order."""
        self.groups = count.groups if count else None
        """On a run's curve by training step: groups (rollouts at one task in one step) with two
        returns or more."""
        self.flat_groups = count.flat if count else None
        """Those groups in which all returns are equal, from which a group-relative update learns
        nothing."""
        self.group_deviation = count.deviation if count else None
        """Mean of the standard deviations of the returns within each of the groups; None without
        groups."""

    @property
    def causes(self) -> dict[str, int]:
        """Endings by cause, also "probe" and "continued"."""
        return by_cause(counts_added([one.causes for one in self._parts]))

    @property
    def flat_share(self) -> float | None:
        """Share of the groups that are flat, 0 to 1; None without groups."""
        return (
            None if not self.groups or self.flat_groups is None else self.flat_groups / self.groups
        )


@dataclass(frozen=True, slots=True)
class Curve:
    scope: Scope
    definition: Definitions
    """The definition of its episodes, or the definitions of their environments where these
    differ."""
    environments: Set[int]
    """Ids of the environments of its episodes."""
    axis: Axis
    points: Sequence[CurvePoint]
    """Points in order of x. None is empty, but one may hold only endings that do not count."""
    total: ScopeFigures | None
    """Figures of all points together; None without an ending."""
    excluded: dict[str, int]
    """Endings by kind that no other figure counts, most first: probes, continuations and rollouts
    that are left out."""
    stepless: int
    """Number of endings that a curve by training step leaves out, because they have no training
    step."""
    ends: WholeRanges
    """`CurvePoint.ends` of all points together; empty without a point."""
    success_error: float
    """By how much the success rate of all points may be off, 0 to 1; 0.0 if it is exact (see
    `error_bounds.py`)."""
    is_bounded: bool
    """Whether older episodes are missing; `note` says why."""
    note: str
    """A sentence for the page next to the curve; may be empty."""


def curve(
    scope: Scope,
    definitions: Definitions,
    axis: Axis = "episode",
    *,
    points: int = MAX_POINTS,
    shown: Range | None = None,
    needs_groups: bool = True,
) -> Curve:
    """Return the curve of one scope, in which every episode follows its definition.

    `shown`: the part of the axis to draw, which is drawn as finely as possible; by time in seconds
    since the epoch. `needs_groups`: whether groups are counted where there are any, which costs
    about as much as everything else.
    """
    if shown is None or shown == Range():
        return curves([scope], definitions, axis, points=points, needs_groups=needs_groups)[0]
    found = zoomed(scope, definitions, axis, shown, needs_groups=needs_groups)
    return _curve(scope, definitions, axis, _View(points, shown, needs_groups), found)


def curves(
    scopes: Sequence[Scope],
    definitions: Definitions,
    axis: Axis = "episode",
    *,
    points: int = MAX_POINTS,
    least_blocks: int | None = None,
    needs_groups: bool = True,
) -> list[Curve]:
    """Return the curves of MAX_SCOPES scopes at most, to be drawn over each other, in about as many
    queries as one.

    `least_blocks`: blocks of each long curve at least; None: as many as make a fine curve
    (`summary_cover.py`). `needs_groups`: see `curve`.
    """
    read = cover(
        scopes[:MAX_SCOPES], definitions, axis, least_blocks=least_blocks, needs_groups=needs_groups
    )
    view = _View(points, Range(), needs_groups)
    return [
        _curve(scope, definitions, axis, view, found)
        for scope, found in zip(scopes, read, strict=False)
    ]


def drawn(scope: Scope, found: SummaryCover, definitions: Definitions, axis: Axis) -> Curve:
    """Return the curve of what `cover` read for this scope, axis and returns; thresholds may be
    others."""
    return _curve(scope, definitions, axis, _View(MAX_POINTS, Range(), needs_groups=True), found)


class _View(NamedTuple):
    """The number of points to draw, the part of the axis to show, and whether groups are
    counted."""

    points: int
    shown: Range
    needs_groups: bool


class _Group(NamedTuple):
    """The endings of a point, with the ends of the point on the axis."""

    low: float
    high: float
    first_end: int
    last_end: int
    summaries: Sequence[JudgedSummary]
    ends: WholeRanges


def _curve(
    scope: Scope, definitions: Definitions, axis: Axis, view: _View, found: SummaryCover
) -> Curve:
    definitions = definitions.among(found.environments)
    units = _units(found, axis, view.shown)
    ranges, bound = EndRanges(found), error_bound_of(found, definitions)
    # single endings that no span holds yet may lie within a span
    groups = sorted(
        [_group(part, axis, definitions, ranges) for part in _parts(units, axis, view.points)],
        key=lambda group: group.low,
    )
    total = by_definition_together(summary for group in groups for summary in group.summaries)
    has_groups = axis == "step" and scope.has_groups and view.needs_groups
    counts = _groups_of(scope, definitions, groups) if has_groups else []
    points = [CurvePoint(group, count) for group, count in zip_longest(groups, counts)]
    return Curve(
        scope=scope,
        definition=definitions,
        environments=found.environments,
        axis=axis,
        points=points,
        total=ScopeFigures(total) if total else None,
        excluded=excluded_of(total),
        ends=_whole(points, axis, units, ranges),
        success_error=bound,
        is_bounded=bool(found.missing),
        stepless=found.stepless if view.shown == Range() else 0,
        note=_note(scope, found, axis, sentence_of(bound, definitions)),
    )


class _Units(NamedTuple):
    """Blocks and single endings that are divided among points, with their places on the axis."""

    blocks: list[StoredBlock]
    rows: list[tuple[float, EndingRow]]

    @property
    def ends(self) -> tuple[float, float]:
        """Lowest and highest place; there must be a block or a row."""
        begins = [block.low for block in self.blocks] + [place for place, _ in self.rows]
        return min(begins), max(
            [block.high for block in self.blocks] + [place for place, _ in self.rows]
        )


def _units(found: SummaryCover, axis: Axis, shown: Range) -> _Units:
    """Return the blocks and rows within `shown`."""
    blocks = list(found.blocks)
    rows: list[tuple[float, EndingRow]]
    if axis == "episode":
        rows = list(enumerate(found.rows, found.first))
    else:
        rows = [(row[4], row) for row in found.rows if row[4] is not None]
    if shown != Range():
        blocks = [block for block in blocks if shown.holds(block.low, block.high)]
        rows = [row for row in rows if shown.holds(row[0], row[0])]
    return _Units(blocks, rows)


def _most_points(units: _Units, axis: Axis) -> int:
    """Return how many points to draw at most.

    Each gets a number of episodes, and the newest episodes, which no large block holds yet, get no
    smaller points.
    """
    sizes = [block.episodes for block in units.blocks]
    if not sizes or axis == "step":  # some training steps may have many more episodes than others
        return max(MIN_POINTS, (sum(sizes) + len(units.rows)) // EPISODES_A_POINT)
    return math.ceil((sum(sizes) + len(units.rows)) / max(sizes))


Part = tuple[list[StoredBlock], list[tuple[float, EndingRow]]]
"""The contents of a point: blocks, and single endings with their places."""


def parts_of(found: SummaryCover, points: int) -> list[Part]:
    """Divide what was read by episode into `points` parts at most, in order, none of them empty."""
    return _parts(_units(found, "episode", Range()), "episode", points)


def _parts(units: _Units, axis: Axis, points: int) -> list[Part]:
    """Put neighbours together in `points` parts at most, in order, none of them empty."""
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
    found = defaultdict[int, Part](lambda: ([], []))
    last = points - 1
    for block in units.blocks:
        middle = (block.low + block.high) / 2
        found[min(last, int((middle - begin) / width))][0].append(block)
    if axis == "step" and units.blocks:
        middle_of = _middles(units.blocks)
        for row in units.rows:
            found[min(last, int((middle_of(row[0]) - begin) / width))][1].append(row)
    else:
        for row in units.rows:
            found[min(last, int((row[0] - begin) / width))][1].append(row)
    return [found[place] for place in sorted(found)]


def _middles(spans: Sequence[StoredBlock]) -> Callable[[float], float]:
    """Return a function from a training step to the middle of the span that has it, so that both
    share a point."""
    lows = [span.low for span in spans]

    def middle(step: float) -> float:
        place = bisect_right(lows, step) - 1
        return (
            (spans[place].low + spans[place].high) / 2
            if place >= 0 and step <= spans[place].high
            else step
        )

    return middle


def _whole(
    points: Sequence[CurvePoint], axis: Axis, units: _Units, ranges: EndRanges
) -> WholeRanges:
    if not points:
        return WholeRanges()
    if axis == "time":
        return ranges.of((units.blocks, units.rows))
    low, high = min(point.first_end for point in points), max(point.last_end for point in points)
    return WholeRanges([WholeRange(low, high)])


class EndRanges:
    """Finds the ranges of `end_number` of units, between which their scope has none but theirs."""

    def __init__(self, found: SummaryCover) -> None:
        self._found = found

    @cached_property
    def _order(self) -> dict[int, int]:
        """The place of each unit among all, by the `end_number` of its first ending. Few curves
        need it."""
        firsts = [block.first_end for block in self._found.blocks] + [
            row[0] for row in self._found.rows
        ]
        return {first: place for place, first in enumerate(sorted(firsts))}

    def of(self, part: Part) -> WholeRanges:
        """Return the ranges, ascending; of more than MAX_RANGES the nearest neighbours are
        joined."""
        blocks, rows = part
        pairs = [(block.first_end, block.last_end) for block in blocks] + [
            (row[0], row[0]) for _, row in rows
        ]
        found, last = list[WholeRange](), -2
        for low, high in sorted(pairs):
            if self._order[low] == last + 1:
                found[-1] = found[-1]._replace(high=high)
            else:
                found.append(WholeRange(low, high))
            last = self._order[low]
        gaps = sorted(
            range(1, len(found)), key=lambda place: found[place].low - found[place - 1].high
        )
        for place in sorted(gaps[: max(0, len(found) - MAX_RANGES)], reverse=True):
            found[place - 1 : place + 1] = [WholeRange(found[place - 1].low, found[place].high)]
        return WholeRanges(found)


def judged_part(part: Part, definitions: Definitions) -> list[JudgedSummary]:
    """Return the summaries of the contents of a point, one for each definition that differs."""
    blocks, rows = part
    return judged(
        [pair for block in blocks for pair in block.pairs], [row for _, row in rows], definitions
    )


def _group(part: Part, axis: Axis, definitions: Definitions, ranges: EndRanges) -> _Group:
    blocks, rows = part
    width = 1 if axis == "episode" else 0  # of a single ending
    low = min([block.low for block in blocks] + [place for place, _ in rows])
    high = max([block.high for block in blocks] + [place + width for place, _ in rows])
    summaries = judged_part(part, definitions)
    first, last = (
        min([summary.first_end for summary in summaries]),
        max([summary.last_end for summary in summaries]),
    )
    # by step those between belong to other training steps
    ends = ranges.of(part) if axis == "time" else WholeRanges([WholeRange(first, last)])
    return _Group(low, high, first, last, summaries, ends)


def _groups_of(
    scope: Scope, definitions: Definitions, groups: Sequence[_Group]
) -> list[GroupCount]:
    """Return the groups of each point, which spans have counted; those of single endings are
    counted here."""
    counters = _Counters()
    counts = [
        counters.count((summary.definition, summary.groups) for summary in group.summaries)
        for group in groups
    ]
    if groups and not any(summary.groups for group in groups for summary in group.summaries):
        low, high = int(groups[0].low), int(max(group.high for group in groups))
        found = groups_by_step(scope, definitions, low, high)
        steps = sorted(found)
        for place, group in enumerate(groups):
            within = steps[bisect_left(steps, group.low) : bisect_right(steps, group.high)]
            counts[place] = counts_together(one for step in within for one in found[step])
    return counts


class _Counters:
    """Counts groups, those of each definition by it."""

    def __init__(self) -> None:
        self._by_definition: dict[Definition, GroupCounter] = {}

    def count(self, parts: Iterable[tuple[Definition, Sequence[GroupTally]]]) -> GroupCount:
        return counts_together(
            self._of(definition).count(*tallies) for definition, tallies in parts
        )

    def _of(self, definition: Definition) -> GroupCounter:
        if definition not in self._by_definition:
            self._by_definition[definition] = GroupCounter(definition)
        return self._by_definition[definition]


def _note(scope: Scope, found: SummaryCover, axis: Axis, bound: str) -> str:
    notes: list[str] = [scope.note] if scope.note else []
    if found.missing:
        notes.append(found.missing)
    if axis == "step" and any(span.low != span.high for span in found.blocks):
        notes.append("With so many episodes, neighbouring training steps may share a point.")
    return " ".join([*notes, bound] if bound else notes)
