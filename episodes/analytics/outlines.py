"""Overview: the figures of the first page, in a number of queries that does not depend on what there is.

Outline: all endings of a scope as one set of figures and the few means of a sparkline. For lists of scopes.

A list draws dozens of them, so here nothing is computed for a point but its mean; `curve.py` makes whole points.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from environments.models import Environment
from environments.scoring.definition import Definition, definition_of
from environments.scoring.returns import Return
from episodes.analytics.activity import ActivityPoint, activity
from episodes.analytics.curve import Part, parts_of
from episodes.analytics.figures import ScopeFigures, figures_of, summary_of
from episodes.analytics.scopes import Scope, scope_of
from episodes.analytics.summary_cover import MIN_RAW, SummaryCover, cover
from episodes.attempts.rule import is_attempt
from episodes.attempts.summary import Summary, together
from episodes.models import Episode

POINTS = 40
"""At most."""


@dataclass(frozen=True, slots=True)
class ScopeOutline:
    total: ScopeFigures | None
    """Of all endings; None without one."""
    excluded: dict[str, int]
    """Probes, continuations and failures of the machinery, by cause, most first: they count in no other figure."""
    means: Sequence[float | None]
    """Of the returns from the first ending to the last, POINTS at most; None where no attempt has one."""
    is_bounded: bool
    """Whether older endings are missing."""


def covers_of(scopes: Sequence[Scope], definition: Definition, least_blocks: int) -> list[SummaryCover]:
    """What outlines are made of, of the definition's return. Five queries at most, whatever the number of scopes."""
    return cover(scopes, definition, least_blocks=least_blocks, most_rows=MIN_RAW)


def outline_of(found: SummaryCover, definition: Definition) -> ScopeOutline:
    """Of what was read for the definition's return; the threshold may be another."""
    points = [_summaries(part, definition.return_) for part in parts_of(found, POINTS)]
    total = together(list(chain.from_iterable(points))) if points else None
    causes = Counter(total.causes if total else {})
    return ScopeOutline(
        total=figures_of(total, definition) if total else None,
        excluded={cause: count for cause, count in causes.most_common() if not is_attempt(cause)},
        means=[_mean(summaries, definition.return_) for summaries in points],
        is_bounded=found.is_bounded,
    )


def _summaries(part: Part, return_: Return) -> list[Summary]:
    blocks, rows = part
    summaries = [summary for _, _, summary in blocks]
    return [*summaries, summary_of([row for _, row in rows], return_)] if rows else summaries


def _mean(summaries: Sequence[Summary], return_: Return) -> float | None:
    """Return the mean of their returns, without merging the sketches, which only other figures need."""
    returns = [pair for summary in summaries for pair in summary.returns[return_]]
    count = sum([many for _, many in returns])
    return math.fsum([value * many for value, many in returns]) / count if count else None


@dataclass(frozen=True, slots=True)
class Strip:
    """ScopeFigures at the head of the first page."""

    live: int
    """Episodes that are running."""
    today: ActivityPoint
    """The day that is under way, UTC."""
    hours: Sequence[ActivityPoint]
    """The last 24, for the sparklines of the strip."""
    minutes: Sequence[ActivityPoint]
    """The last 60."""


@dataclass(frozen=True, slots=True)
class EnvironmentFigures:
    environment: Environment
    definition: Definition
    total: ScopeFigures | None
    """Of all its episodes; None: none has ended yet."""
    excluded: dict[str, int]
    """Probes, continuations and failures of the machinery, by cause."""
    sparkline: Sequence[float | None]
    """Mean returns from its first episode to its last, POINTS at most; None where no attempt has one."""
    is_bounded: bool
    """Whether older episodes are still being counted."""


def strip(now: float | None = None) -> Strip:
    """Four queries. `now`: seconds since the epoch, by default the clock's."""
    moment = time.time() if now is None else now
    days, hours, minutes = (activity(span, now=moment) for span in ("30d", "24h", "1h"))
    live = Episode.objects.filter(status="running").count()
    return Strip(live, days[-1], hours, minutes)


def environment_figures(
    environments: Iterable[Environment], return_: Return | None = None, threshold: float | None = None
) -> list[EnvironmentFigures]:
    """Of each, by its own definition unless another is given; six queries for each kind of return among them."""
    asked = [(one, definition_of(one, return_, threshold)) for one in environments]
    found: dict[int, EnvironmentFigures] = {}
    for kind in sorted({definition.return_ for _, definition in asked}):
        chosen = [pair for pair in asked if pair[1].return_ == kind]
        scopes = [scope_of(environment) for environment, _ in chosen]
        covers = covers_of(scopes, Definition(kind), least_blocks=POINTS)
        for (environment, definition), one in zip(chosen, covers, strict=True):
            outline = outline_of(one, definition)
            found[environment.pk] = EnvironmentFigures(
                environment, definition, outline.total, outline.excluded, outline.means, outline.is_bounded
            )
    return [found[environment.pk] for environment, _ in asked]
