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
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from environments.filtering.parameters import MAX_RANGES, WholeRange, WholeRanges
from environments.scoring.convention import by_cause, counts_added
from environments.scoring.definition import Definitions
from episodes.attempts.group_states import GroupCount, GroupCounter, counts_together
from episodes.attempts.summary import JudgedSummary
from episodes.figures.block_queries import Axis, StoredBlock, groups_by_step
from episodes.figures.curves.zoomed_range import WHOLE, Range, zoomed
from episodes.figures.scope_figures import (
    EndingRow,
    ScopeFigures,
    by_definition_together,
    excluded_of,
    judged,
)
from episodes.figures.scopes import Scope
from episodes.figures.sketch_error import error_bound_of, sentence_of
from episodes.figures.summary_cover import SummaryCover, covers_of

MAX_POINTS = 500
MAX_SCOPES = 100
"""Maximum number of scopes that are drawn together."""
EPISODES_A_POINT = 8
"""Episodes of a point on average, if there are enough for MIN_POINTS, so that its band and rate
mean something."""
MIN_POINTS = 24


class CurvePoint(ScopeFigures):
    def __init__(self, part: Part, axis: Axis, definitions: Definitions, order: Order) -> None:
        super().__init__(part.judged(definitions))
        self.x = part.low
        """Start of the point. By episode: 0-based place of its first episode within the scope; by
        time: when that episode ended, in seconds since the epoch; by step: its lowest training
        step."""
        width = 1 if axis == "episode" else 0  # of a single ending
        self.x_to = max([block.high for block in part.blocks] + [x + width for x, _ in part.rows])
        """End of the point: the place after its last episode; when that ended; or its highest
        training step."""
        self.first_end = min([summary.first_end for summary in self.parts])
        """`end_number` of its first episode."""
        self.last_end = max([summary.last_end for summary in self.parts])
        self.ends = _end_ranges(part, order) or WholeRanges(
            [WholeRange(self.first_end, self.last_end)]
        )
        """Ranges of `end_number` within which the scope has exactly the episodes of the point, by
        step together with the point's training steps. By time there may be several, because
        episodes that were imported end late in this order."""
        self.group_count: GroupCount | None = None
        """On a run's curve by training step: its groups (rollouts at one task in one step)."""

    @property
    def causes(self) -> dict[str, int]:
        """Endings by cause, also "probe" and "continued"."""
        return by_cause(counts_added([part.causes for part in self.parts]))

    @property
    def groups(self) -> int | None:
        """Groups with two returns or more; None where groups are not counted."""
        return self.group_count and self.group_count.groups

    @property
    def flat_groups(self) -> int | None:
        """Those groups in which all returns are equal, from which a group-relative update learns
        nothing."""
        return self.group_count and self.group_count.flat

    @property
    def group_deviation(self) -> float | None:
        """Mean of the standard deviations of the returns within each of the groups; None without
        groups."""
        return self.group_count and self.group_count.deviation

    @property
    def flat_share(self) -> float | None:
        """Share of the groups that are flat, 0 to 1; None without groups."""
        return self.group_count and self.group_count.flat_share


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
    `sketch_error.py`)."""
    is_bounded: bool
    """Whether older episodes are missing; `note` says why."""
    note: str
    """A sentence for the page next to the curve; may be empty."""

    @property
    def steps_of_a_point(self) -> int:
        """Number of training steps that a point of a curve by step averages, at most."""
        return max((int(point.x_to - point.x) + 1 for point in self.points), default=1)


def curve(
    scope: Scope,
    definitions: Definitions,
    axis: Axis = "episode",
    *,
    points: int = MAX_POINTS,
    zoom: Range = WHOLE,
    needs_groups: bool = True,
) -> Curve:
    """Return the curve of one scope, in which every episode follows its definition.

    `zoom`: the part of the axis to draw, which is drawn as finely as possible; by time in seconds
    since the epoch. `needs_groups`: whether groups are counted where there are any, which costs
    about as much as everything else.
    """
    if zoom == WHOLE:
        cover = covers_of([scope], definitions, axis, needs_groups=needs_groups)[0]
    else:
        cover = zoomed(scope, definitions, axis, zoom, needs_groups=needs_groups)
    return curve_of(
        cover, scope, definitions, axis, points=points, zoom=zoom, needs_groups=needs_groups
    )


def curves(
    scopes: Sequence[Scope],
    definitions: Definitions,
    axis: Axis = "episode",
    *,
    points: int = MAX_POINTS,
    zoom: Range = WHOLE,
    least_blocks: int | None = None,
    needs_groups: bool = True,
) -> list[Curve]:
    """Return the curves of MAX_SCOPES scopes at most, to be drawn over each other, in about as many
    queries as one.

    `zoom`: the part of the axis to draw, as finely as in the whole. `least_blocks`: blocks of each
    long curve at least; None: as many as make a fine curve (`summary_cover.py`). `needs_groups`:
    see `curve`.
    """
    scopes = scopes[:MAX_SCOPES]
    covers = covers_of(
        scopes, definitions, axis, least_blocks=least_blocks, needs_groups=needs_groups
    )
    return [
        curve_of(
            cover, scope, definitions, axis, points=points, zoom=zoom, needs_groups=needs_groups
        )
        for scope, cover in zip(scopes, covers, strict=True)
    ]


def curve_of(
    cover: SummaryCover,
    scope: Scope,
    definitions: Definitions,
    axis: Axis,
    *,
    points: int = MAX_POINTS,
    zoom: Range = WHOLE,
    needs_groups: bool = True,
) -> Curve:
    """Return the curve of what was read for this scope, axis and returns; thresholds may be
    others."""
    definitions = definitions.among(cover.environments)
    whole, error = _part_of(cover, axis, zoom), error_bound_of(cover, definitions)
    order: Order = {}
    if axis == "time":
        firsts = [block.first_end for block in cover.blocks] + [row[0] for row in cover.rows]
        order = {first: place for place, first in enumerate(sorted(firsts))}
    parts = _parts(whole, axis, points)
    # single endings that no span holds yet may lie within a span
    line = sorted(
        [CurvePoint(part, axis, definitions, order) for part in parts], key=attrgetter("x")
    )
    if needs_groups and axis == "step" and scope.has_groups:
        _count_groups(scope, definitions, line)
    total = by_definition_together(part for point in line for part in point.parts)
    ends = _end_ranges(whole, order)
    if line and not ends:
        low, high = min(point.first_end for point in line), max(point.last_end for point in line)
        ends = WholeRanges([WholeRange(low, high)])
    notes = [scope.note, cover.missing]
    notes.append(sentence_of(error, definitions))
    return Curve(
        scope=scope,
        definition=definitions,
        environments=cover.environments,
        axis=axis,
        points=line,
        total=ScopeFigures(total) if total else None,
        excluded=excluded_of(total),
        ends=ends,
        success_error=error,
        is_bounded=bool(cover.missing),
        stepless=cover.stepless if zoom == WHOLE else 0,
        note=" ".join(filter(None, notes)),
    )


class Part(NamedTuple):
    """Blocks, and single endings with their places on the axis: what a curve or one of its points
    is made of."""

    blocks: list[StoredBlock]
    rows: list[tuple[float, EndingRow]]

    @property
    def low(self) -> float:
        return min([block.low for block in self.blocks] + [place for place, _ in self.rows])

    def judged(self, definitions: Definitions) -> list[JudgedSummary]:
        """Return the summaries, one for each definition that differs."""
        pairs = [pair for block in self.blocks for pair in block.pairs]
        return judged(pairs, [row for _, row in self.rows], definitions)


Order = Mapping[int, int]
"""For a curve by time: the place of each block and single ending among all, by the `end_number` of
its first ending. Empty for other curves."""


def _part_of(cover: SummaryCover, axis: Axis, zoom: Range) -> Part:
    """Return the blocks and rows within `zoom`."""
    rows: list[tuple[float, EndingRow]]
    if axis == "episode":
        rows = list(enumerate(cover.rows, cover.first))
    else:
        rows = [(row[4], row) for row in cover.rows if row[4] is not None]
    blocks = list(cover.blocks)
    if zoom != WHOLE:
        blocks = [block for block in blocks if zoom.holds(block.low, block.high)]
        rows = [row for row in rows if zoom.holds(row[0], row[0])]
    return Part(blocks, rows)


def parts_of(cover: SummaryCover, points: int) -> list[Part]:
    """Divide what was read by episode into `points` parts at most, in order, none of them empty."""
    return _parts(_part_of(cover, "episode", WHOLE), "episode", points)


def _parts(whole: Part, axis: Axis, points: int) -> list[Part]:
    """Put neighbours together in `points` parts at most, in order, none of them empty."""
    blocks, rows = whole
    if not (blocks or rows):
        return []
    begin = whole.low
    end = max([block.high for block in blocks] + [place for place, _ in rows])
    sizes = [block.episodes for block in blocks]
    episodes = sum(sizes) + len(rows)
    if not sizes or axis == "step":  # some training steps may have many more episodes than others
        points = min(points, max(MIN_POINTS, episodes // EPISODES_A_POINT))
    else:  # the newest episodes, which no large block holds yet, get no smaller points
        points = min(points, math.ceil(episodes / max(sizes)))
    if axis == "time":
        width = (end - begin) / points or 1.0
    else:
        points = min(points, int(end - begin) + 1) if axis == "step" else points
        width = math.ceil((end - begin + 1) / points)
    parts = defaultdict[int, Part](lambda: Part([], []))
    last = points - 1
    for block in blocks:
        middle = (block.low + block.high) / 2
        parts[min(last, int((middle - begin) / width))].blocks.append(block)
    middle_of = _middles(blocks) if axis == "step" and blocks else float
    for row in rows:
        parts[min(last, int((middle_of(row[0]) - begin) / width))].rows.append(row)
    return [parts[place] for place in sorted(parts)]


def _middles(spans: Sequence[StoredBlock]) -> Callable[[float], float]:
    """Return a function from a training step to the middle of the span that has it, so that both
    share a point."""
    lows = [span.low for span in spans]

    def middle(step: float) -> float:
        place = bisect_right(lows, step) - 1
        if place < 0 or step > spans[place].high:
            return step
        return (spans[place].low + spans[place].high) / 2

    return middle


def _end_ranges(part: Part, order: Order) -> WholeRanges:
    """Return the ranges of `end_number` of a part, between which its scope has none but theirs, in
    order; empty without an order. Of more than MAX_RANGES the nearest neighbours are joined."""
    if not order:
        return WholeRanges()
    pairs = [(block.first_end, block.last_end) for block in part.blocks]
    pairs += [(row[0], row[0]) for _, row in part.rows]
    ranges, last = list[WholeRange](), -2
    for low, high in sorted(pairs):
        if order[low] == last + 1:
            ranges[-1] = ranges[-1]._replace(high=high)
        else:
            ranges.append(WholeRange(low, high))
        last = order[low]
    gaps = sorted(
        range(1, len(ranges)), key=lambda place: ranges[place].low - ranges[place - 1].high
    )
    for place in sorted(gaps[: max(0, len(ranges) - MAX_RANGES)], reverse=True):
        ranges[place - 1 : place + 1] = [WholeRange(ranges[place - 1].low, ranges[place].high)]
    return WholeRanges(ranges)


def _count_groups(scope: Scope, definitions: Definitions, points: Sequence[CurvePoint]) -> None:
    """Count the groups of each point, which spans have counted; those of single endings are counted
    here."""
    parts = [part for point in points for part in point.parts]
    if any(part.groups for part in parts):
        counters = {
            definition: GroupCounter(definition) for definition in {p.definition for p in parts}
        }
        for point in points:
            point.group_count = counts_together(
                counters[part.definition].count(*part.groups) for part in point.parts
            )
    elif points:
        low, high = int(points[0].x), int(max(point.x_to for point in points))
        counts_by_step = groups_by_step(scope, definitions, low, high)
        steps = sorted(counts_by_step)
        for point in points:
            within = steps[bisect_left(steps, point.x) : bisect_right(steps, point.x_to)]
            point.group_count = counts_together(counts_by_step[step] for step in within)
