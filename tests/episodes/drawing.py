"""What curves are drawn of in tests, and curves that are drawn from blocks alone."""

from __future__ import annotations

from collections.abc import Callable

from environments.models import Environment, Split
from environments.scoring.definition import Definition
from episodes.figures.block_queries import Axis
from episodes.figures.curves.curve_points import Curve, curve_of
from episodes.figures.scopes import Scope, scope_of
from episodes.figures.summary_cover import covers_of
from episodes.models import Run
from tests.episodes.playing import THRESHOLD

SUM = Definition("sum", THRESHOLD)
AXES: tuple[Axis, ...] = ("episode", "time", "step")
OF: dict[str, Callable[[], Scope]] = {
    "environment": lambda: scope_of(Environment.objects.get(name="echo")),
    "split": lambda: scope_of(Split.objects.get(environment__name="echo")),
    "run": lambda: scope_of(Run.objects.get(name="r1")),
}
"""Scopes of a record that `play` has made."""


def from_blocks(scope: Scope, definition: Definition, axis: Axis = "episode") -> Curve:
    """Return a curve from blocks that are as coarse as possible."""
    found = covers_of([scope], definition, axis, least_blocks=1, most_rows=0)[0]
    assert found.blocks
    return curve_of(found, scope, definition, axis)
