"""Outlines of scopes for lists: the figures of all endings and the few means of a sparkline; and
the first page's figures.

A list shows dozens of outlines, so only the mean of a point is computed here; `curve.py` computes
whole points. The number of queries does not depend on the number of scopes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from environments.models import Environment, Viewer
from environments.models.viewer import visible_environments
from environments.scoring.definition import (
    NOTHING_ASKED,
    Definition,
    DefinitionAsked,
    Definitions,
    definitions_in_force,
    definitions_of,
)
from episodes.analytics.activity import ActivityPoint, Span, activity
from episodes.analytics.curve import judged_part, parts_of
from episodes.analytics.figures import ScopeFigures, by_definition_together, excluded_of
from episodes.analytics.scopes import Scope, filtered, scope_of
from episodes.analytics.summary_cover import MIN_RAW, SummaryCover, cover
from episodes.attempts.summary import JudgedSummary
from episodes.models import Episode
from episodes.models.privacy import own_records

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


def covers_of(
    scopes: Sequence[Scope], definitions: Definitions, least_blocks: int
) -> list[SummaryCover]:
    """Read the data for overviews of `scopes`, by the returns of the definitions. Up to five
    queries."""
    return cover(scopes, definitions, least_blocks=least_blocks, most_rows=MIN_RAW)


def outline_of(found: SummaryCover, definitions: Definitions) -> ScopeOutline:
    """Return the outline of what was read for the definitions."""
    points = [judged_part(part, definitions) for part in parts_of(found, MAX_POINTS)]
    total = by_definition_together(chain.from_iterable(points))
    return ScopeOutline(
        total=ScopeFigures(total) if total else None,
        excluded=excluded_of(total),
        means=[_mean(point) for point in points],
        missing=found.missing,
    )


def _mean(summaries: Sequence[JudgedSummary]) -> float | None:
    """Return the mean of their returns, without merging one sketch with another."""
    returns = [
        pair for summary in summaries for sketch in summary.return_sketches for pair in sketch
    ]
    count = sum([many for _, many in returns])
    return math.fsum([value * many for value, many in returns]) / count if count else None


@dataclass(frozen=True, slots=True)
class Strip:
    """ScopeFigures at the head of the first page."""

    live: int
    """Number of running episodes."""
    today: ActivityPoint
    """Activity of the current day, in UTC."""
    hours: Sequence[ActivityPoint]
    """Activity of the last 24 hours, for the sparklines of the strip."""
    minutes: Sequence[ActivityPoint]
    """Activity of the last 60 minutes."""


@dataclass(frozen=True, slots=True)
class EnvironmentFigures:
    environment: Environment
    definition: Definition
    total: ScopeFigures | None
    """Figures of all its episodes; None if none has ended yet."""
    excluded: dict[str, int]
    """Endings by kind that no other figure counts."""
    sparkline: Sequence[float | None]
    """Mean returns from its first episode to its last, MAX_POINTS at most; None for a point without
    a return."""
    missing: str
    """See ScopeOutline."""


def strip(viewer: Viewer, now: float | None = None) -> Strip:
    """Return the strip of the environments that exist for the viewer. Five queries.

    `now`: seconds since the epoch; None: the clock's.
    """
    moment = time.time() if now is None else now
    spans: tuple[Span, ...] = ("30d", "24h", "1h")
    definitions = definitions_in_force()
    days, hours, minutes = (
        activity(span, viewer, now=moment, definitions=definitions) for span in spans
    )
    running = Episode.objects.filter(status="running")
    live = running.filter(visible_environments(viewer)).count()
    return Strip(live, days[-1], hours, minutes)


def environment_figures(
    environments: Iterable[Environment],
    viewer: Viewer,
    asked: DefinitionAsked = NOTHING_ASKED,
) -> list[EnvironmentFigures]:
    """Return the figures of each environment by its own definition, or by what is given of another.

    For a key, the newest MAX_ENDINGS of its own episodes are counted. Six queries at most.
    """
    rows = list(environments)
    definitions = definitions_of(rows, asked)
    covers = covers_of(
        [_scope_of(row, viewer) for row in rows], definitions, least_blocks=MAX_POINTS
    )
    found = []
    for environment, one in zip(rows, covers, strict=True):
        definition = definitions.of(environment.pk)
        outline = outline_of(one, definition)
        found.append(
            EnvironmentFigures(
                environment,
                definition,
                outline.total,
                outline.excluded,
                outline.means,
                outline.missing,
            )
        )
    return found


def _scope_of(environment: Environment, viewer: Viewer) -> Scope:
    own, played = own_records(viewer), Episode.objects.filter(environment=environment)
    return filtered(played.filter(own), "", played) if own else scope_of(environment)
