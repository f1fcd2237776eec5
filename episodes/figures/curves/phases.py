"""Phases: the parts of a curve between the change points of its return, success and length. The
page of a run and the reward doctor use them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from episodes.figures.curves.change_points import change_points
from episodes.figures.curves.curve_points import CurvePoint
from episodes.figures.scope_figures import ScopeFigures, by_definition_together


class Phase(ScopeFigures):
    """Neighbouring points of a curve, between whose levels there is no change."""

    def __init__(self, points: Sequence[CurvePoint]) -> None:
        super().__init__(by_definition_together(part for point in points for part in point.parts))
        self.x = points[0].x
        """Start, as that of its first point."""
        self.x_to = max(point.x_to for point in points)
        self.first_end = min(point.first_end for point in points)
        """`end_number` of its first episode."""
        self.last_end = max(point.last_end for point in points)


def phases_of(points: Sequence[CurvePoint]) -> list[Phase]:
    """Return the phases of a curve in order; one where nothing changes, none without a return."""
    points = [point for point in points if point.scored and point.length_mean is not None]
    places = change_points(
        [
            [point.mean or 0.0 for point in points],
            [point.success or 0.0 for point in points],
            [point.length_mean or 0.0 for point in points],
        ],
        [point.scored for point in points],
    )
    ends = [0, *places, len(points)]
    return [Phase(points[start:beyond]) for start, beyond in pairwise(ends) if start < beyond]
