"""Outlines of scopes for lists: the figures of all endings and the few means of a sparkline; and the first page's
figures.

A list shows dozens of outlines, so only the mean of a point is computed here; `curve.py` computes whole points. The
number of queries does not depend on the number of scopes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from environments.models import Environment
from environments.scoring.definition import NOTHING_ASKED, Definition, DefinitionAsked, definition_of
from environments.scoring.returns import Return
from episodes.analytics.activity import ActivityPoint, Span, activity, definitions_in_force
from episodes.analytics.curve import Part, parts_of
from episodes.analytics.figures import ScopeFigures, excluded_of, figures_of, summary_of
from episodes.analytics.scopes import Scope, filtered, scope_of
from episodes.analytics.summary_cover import MIN_RAW, SummaryCover, cover
from episodes.attempts.summary import Summary, together
from episodes.models import Episode

MAX_POINTS = 40
"""Maximum number of points of a sparkline."""


@dataclass(frozen=True, slots=True)
class ScopeOutline:
    total: ScopeFigures | None
    """Figures of all endings; None without an ending."""
    excluded: dict[str, int]
    """Endings by kind that no other figure counts, most first: probes, continuations and rollouts that are left out."""
    means: Sequence[float | None]
    """Mean returns from the first ending to the last, MAX_POINTS at most; None for a point without a return."""
    is_bounded: bool
    """Whether older endings are missing."""


def covers_of(scopes: Sequence[Scope], definition: Definition, least_blocks: int) -> list[SummaryCover]:
    """Read the data for overviews of `scopes`, by the return of the definition. Up to five queries."""
    return cover(scopes, definition, least_blocks=least_blocks, most_rows=MIN_RAW)


def outline_of(found: SummaryCover, definition: Definition) -> ScopeOutline:
    """Return the outline of what was read for the definition's return; the threshold may be another."""
    points = [_summaries(part, definition.return_) for part in parts_of(found, MAX_POINTS)]
    total = together(list(chain.from_iterable(points))) if points else None
    return ScopeOutline(
        total=figures_of(total, definition) if total else None,
        excluded=excluded_of(total, definition) if total else {},
        means=[_mean(summaries, definition) for summaries in points],
        is_bounded=found.is_bounded,
    )


def summary_in(found: SummaryCover, return_: Return) -> Summary | None:
    """Return the summary of all endings that were read for this return; None if there are none."""
    summaries = [one for part in parts_of(found, 1) for one in _summaries(part, return_)]
    return together(summaries) if summaries else None


def _summaries(part: Part, return_: Return) -> list[Summary]:
    blocks, rows = part
    summaries = [summary for _, _, summary in blocks]
    return [*summaries, summary_of([row for _, row in rows], return_)] if rows else summaries


def _mean(summaries: Sequence[Summary], definition: Definition) -> float | None:
    """Return the mean of their returns, without merging the sketches of one with another."""
    returns = [pair for summary in summaries for pair in summary.returns(definition)]
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
    """Mean returns from its first episode to its last, MAX_POINTS at most; None for a point without a return."""
    is_bounded: bool
    """Whether older episodes are still being counted."""


def strip(now: float | None = None, hidden: frozenset[int] = frozenset()) -> Strip:
    """Return the strip without the environments `hidden`. `now`: seconds since the epoch; None: the clock's.

    Five queries.
    """
    moment = time.time() if now is None else now
    spans: tuple[Span, ...] = ("30d", "24h", "1h")
    definitions = definitions_in_force()
    days, hours, minutes = (activity(span, now=moment, definitions=definitions, hidden=hidden) for span in spans)
    running = Episode.objects.filter(status="running")
    live = (running.exclude(environment__in=hidden) if hidden else running).count()
    return Strip(live, days[-1], hours, minutes)


def environment_figures(
    environments: Iterable[Environment], asked: DefinitionAsked = NOTHING_ASKED, key: str | None = None
) -> list[EnvironmentFigures]:
    """Return the figures of each environment by its own definition, or by what is given of another.

    `key`: label of a key, of whose episodes the newest MAX_ENDINGS of each environment are counted; None: all episodes.
    Six queries for each kind of return among the definitions.
    """
    pairs = [(one, definition_of(one, asked)) for one in environments]
    found: dict[int, EnvironmentFigures] = {}
    for kind in sorted({definition.return_ for _, definition in pairs}):
        chosen = [pair for pair in pairs if pair[1].return_ == kind]
        scopes = [_scope_of(environment, key) for environment, _ in chosen]
        covers = covers_of(scopes, Definition(kind), least_blocks=MAX_POINTS)
        for (environment, definition), one in zip(chosen, covers, strict=True):
            outline = outline_of(one, definition)
            found[environment.pk] = EnvironmentFigures(
                environment, definition, outline.total, outline.excluded, outline.means, outline.is_bounded
            )
    return [found[environment.pk] for environment, _ in pairs]


def _scope_of(environment: Environment, key: str | None) -> Scope:
    played = Episode.objects.filter(environment=environment)
    return scope_of(environment) if key is None else filtered(played.filter(key_label=key), "", played)
