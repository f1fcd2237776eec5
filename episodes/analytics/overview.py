"""Overview: the figures of the first page, in a number of queries that does not depend on what there is."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from environments.models import Environment
from environments.returns import Return
from episodes.analytics.activity import ActivityPoint, activity
from episodes.analytics.definition import Definition, definition_of
from episodes.analytics.figures import Figures
from episodes.analytics.outline import POINTS, covers_of, outline_of
from episodes.analytics.scope import scope_of
from episodes.models import Episode


@dataclass(frozen=True, slots=True)
class Strip:
    """Figures at the head of the first page."""

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
    total: Figures | None
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
