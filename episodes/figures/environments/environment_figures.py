"""Outlines of scopes for lists: the figures of all endings and the few means of a sparkline.

A list shows dozens of outlines, so only the mean of a point is computed here; `curves/curve_points.py` computes
whole points. The number of queries does not depend on the number of scopes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType

from environments.filtering.filters import query_string
from environments.models import Environment, Split, Viewer
from environments.scoring.definition import (
    NO_OVERRIDES,
    Definition,
    DefinitionOverrides,
    Definitions,
    definitions_of,
)
from episodes.attempts.summary import JudgedSummary
from episodes.figures.curves.curve_points import parts_of
from episodes.figures.scope_figures import ScopeFigures, by_definition_together, excluded_of
from episodes.figures.scopes import scope_of, scope_seen_by
from episodes.figures.summary_cover import MAX_LINE_RAW, SummaryCover, covers_of

NO_SPLITS: Mapping[int, Split] = MappingProxyType({})
MAX_POINTS = 40
"""Maximum number of points of a sparkline."""


@dataclass(frozen=True, slots=True)
class ScopeOutline:
    total: ScopeFigures | None
    """Figures of all endings; None without an ending."""
    excluded: dict[str, int]
    """Endings by kind that no other figure counts, most first: probes, continuations and rollouts
    that are left out."""
    means: Sequence[float | None]
    """Mean returns from the first ending to the last, MAX_POINTS at most; None for a point without
    a return."""
    missing: str
    """A sentence about older episodes that are not counted, or not yet; empty if none are
    missing."""


def outline_of(cover: SummaryCover, definitions: Definitions) -> ScopeOutline:
    """Return the outline of what was read for the definitions."""
    points = [part.judged(definitions) for part in parts_of(cover, MAX_POINTS)]
    total = by_definition_together(chain.from_iterable(points))
    return ScopeOutline(
        total=ScopeFigures(total) if total else None,
        excluded=excluded_of(total),
        means=[_mean(point) for point in points],
        missing=cover.missing,
    )


def _mean(summaries: Sequence[JudgedSummary]) -> float | None:
    """Return the mean of their returns, without merging one sketch with another."""
    returns = [
        pair for summary in summaries for sketch in summary.return_sketches for pair in sketch
    ]
    count = sum([many for _, many in returns])
    return math.fsum([value * many for value, many in returns]) / count if count else None


@dataclass(frozen=True, slots=True)
class EnvironmentFigures:
    environment: Environment
    definition: Definition
    outline: ScopeOutline
    """Outline of the episodes of the split, or of all."""
    split: Split | None = None

    @property
    def query(self) -> str:
        """Query string of the Episodes page that lists these episodes."""
        split = self.split.name if self.split else None
        return query_string(environment=self.environment.name, split=split, player="others")


def environment_figures(
    environments: Sequence[Environment],
    viewer: Viewer,
    overrides: DefinitionOverrides = NO_OVERRIDES,
    splits: Mapping[int, Split] = NO_SPLITS,
) -> list[EnvironmentFigures]:
    """Return the figures of each environment by its own definition, with the parts of `overrides`
    replaced. `splits`: those whose episodes alone count, by the id of their environment.

    For a key, the newest MAX_ENDINGS of its own episodes are counted. Six queries at most.
    """
    definitions = definitions_of(environments, overrides)
    scopes = [
        scope_of(splits[environment.pk])
        if environment.pk in splits
        else scope_seen_by(environment, viewer)
        for environment in environments
    ]
    covers = covers_of(scopes, definitions, least_blocks=MAX_POINTS, most_rows=MAX_LINE_RAW)
    figures = list[EnvironmentFigures]()
    for environment, cover in zip(environments, covers, strict=True):
        definition = definitions.of(environment.pk)
        outline, split = outline_of(cover, definition), splits.get(environment.pk)
        figures.append(EnvironmentFigures(environment, definition, outline, split))
    return figures
