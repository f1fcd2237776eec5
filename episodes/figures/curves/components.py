"""Curves of the components of rewards, along the points of a curve that was drawn.

A point's value is the mean over the attempts that report the component, by the definition of the
return. Those that the convention counts as 0 count as 0 here too, so that components add up to
returns. The newest
MAX_EPISODES episodes of a scope are read, which takes about as long as the curve itself.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean, stdev
from typing import Any, NamedTuple, cast

from django.db.models import Case, Value, When

from episodes.attempts.conventions import ConventionsInForce
from episodes.attempts.endings import bounded, rows_of
from episodes.attempts.rule import AttemptQuerySet
from episodes.figures.curves.curve_points import Curve
from episodes.figures.curves.figure_menu import REPORTED_COMPONENTS
from episodes.figures.scopes import filtered, floor_of
from episodes.figures.summary_cover import note_of_part
from episodes.models import Episode, RewardComponent
from episodes.rollups.components import ComponentsPart

MAX_EPISODES = 10_000
"""Maximum number of episodes of a scope whose components are read."""
MAX_VALUES = 100_000
"""Maximum number of values of components that are read."""
MAX_SERIES = 8
"""Components of one curve, if none are picked: those that most episodes report."""

MIN_OWN = 8
"""Values of a point from which its own deviation is known well enough."""


class ComponentPoint(NamedTuple):
    n: int
    """Number of attempts that report the component."""
    mean: float | None
    """Mean of their values; None without any."""


@dataclass(frozen=True, slots=True)
class ComponentSeries:
    name: str
    total: ComponentPoint
    points: Sequence[ComponentPoint]
    """One for each point of the curve, in order."""
    intervals: Sequence[tuple[float, float] | tuple[()]]
    """The same: two standard errors below and above the mean; empty where that is not known."""


@dataclass(frozen=True, slots=True)
class ComponentCurves:
    series: Sequence[ComponentSeries]
    """The picked components in their order, or those that most attempts report."""
    note: str
    """A sentence to show next to the curves; may be empty."""
    attempts: int | None = None
    """Attempts of the curve; None where not all of them are read."""


def component_curves(curve: Curve, names: Sequence[str] | None = None) -> ComponentCurves:
    """Return the components along the points of `curve`. `names`: those to return; None: the most
    frequent ones."""
    episodes, floor = newest_episodes_of(curve)
    values: dict[str, list[list[float]]] = defaultdict(lambda: [[] for _ in curve.points])
    labels = dict(RewardComponent.objects.values_list("pk", "name"))
    picked_ids = {pk for pk, name in labels.items() if names is None or name in names}
    place_of = places_of(curve)
    for end, step, component, value in _rows(episodes, curve, picked_ids):
        if (place := place_of(end, step)) is not None:
            values[labels[component]][place].append(bounded(value))
    notes = list[str]()
    if floor and values:
        notes.append(f"Components are those of the newest {MAX_EPISODES:,} episodes.")
    notes.append(note_of_part(ComponentsPart.name))
    if names is None:
        names = sorted(values, key=lambda name: -sum(map(len, values[name])))[:MAX_SERIES]
        if len(values) > MAX_SERIES:
            notes.append(
                f"Of {len(values):,} components, the {MAX_SERIES} that most episodes "
                "report are shown."
            )
    series = []
    for name in names:
        whole = list(chain(*values[name]))
        deviation = stdev(whole) if len(whole) > 1 else None
        points = list(map(_point, values[name]))
        intervals = [_interval(part, deviation) for part in values[name]]
        series.append(ComponentSeries(name, _point(whole), points, intervals))
    attempts = curve.total.n if curve.total and not floor else None
    if any(line.total.n != attempts for line in series):
        notes.append(REPORTED_COMPONENTS)
    return ComponentCurves(series, " ".join(filter(None, notes)), attempts)


def _point(values: Iterable[float]) -> ComponentPoint:
    numbers = list(values)
    return ComponentPoint(len(numbers), sum(numbers) / len(numbers) if numbers else None)


def _interval(values: Sequence[float], deviation: float | None) -> tuple[float, float] | tuple[()]:
    """Return the interval of a point. `deviation`: that of the whole line, which counts where few
    attempts report the component, so that one alone has an interval, too."""
    if not values or deviation is None:
        return ()
    width = 2 * (stdev(values) if len(values) >= MIN_OWN else deviation) / math.sqrt(len(values))
    return fmean(values) - width, fmean(values) + width


def names_of(environments: Collection[int] | None = None) -> list[str]:
    """Return the names of all components, or of those of some environments, in alphabetical
    order."""
    rows = RewardComponent.objects.order_by("name")
    rows = rows if environments is None else rows.filter(environment_id__in=environments)
    return list(dict.fromkeys(rows.values_list("name", flat=True)))


def newest_episodes_of(curve: Curve) -> tuple[AttemptQuerySet[Episode], int]:
    """Return the newest episodes of the scope, and the id above which they are; 0 if they are
    all."""
    scope = curve.scope
    within = scope.episodes if scope.has_blocks and scope.within is None else scope.within
    floor = floor_of(filtered(scope.episodes, "", within), MAX_EPISODES)
    return cast("AttemptQuerySet[Episode]", scope.episodes.filter(pk__gt=floor)), floor


def _rows(
    episodes: AttemptQuerySet[Episode], curve: Curve, components: Collection[int]
) -> list[tuple[Any, ...]]:
    """Return `end_number`, training step, component and value of the attempts, newest first."""
    if not components:
        return []
    conventions = ConventionsInForce.of_definitions(curve.definition)
    attempts = episodes.filter(conventions.attempts, components__component__in=components)
    value, zeros = curve.definition.value("components__value_"), conventions.zeros
    columns: list[Any] = ["end_number", "run_step", "components__component"]
    columns.append(value if zeros is None else Case(When(zeros, then=Value(0.0)), default=value))
    return rows_of(attempts.order_by("-pk").values_list(*columns)[:MAX_VALUES])


def places_of(curve: Curve) -> Callable[[int, int | None], int | None]:
    """Return a function from the `end_number` and training step of an ending to the place of its
    point; None if the curve leaves the ending out."""
    is_by_step = curve.axis == "step"
    ranges = sorted(
        (low, high, place)
        for place, point in enumerate(curve.points)
        for low, high in ([(point.x, point.x_to)] if is_by_step else point.ends)
    )
    starts = [low for low, _, _ in ranges]

    def place_of(end: int, step: int | None) -> int | None:
        value = step if is_by_step else end
        if value is None or (place := bisect_right(starts, value) - 1) < 0:
            return None
        _, high, point = ranges[place]
        return point if value <= high else None

    return place_of
