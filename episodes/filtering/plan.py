"""QueryPlan: which condition of a filter finds episodes, and which are only checked on those found. Made for one order.

One condition alone, and one figure's range in that figure's order, are read along an index, however many episodes there
are. Of other combinations the newest LOOKED_AT_FOR_PAGE episodes of the most telling condition are looked at; to sort
them by a figure, the newest SORTED.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Q
from django.db.models.lookups import Lookup

from episodes.attempts.rule import AttemptQuerySet
from episodes.filtering.conditions import ALL, ENDED, Condition, conditions_of
from episodes.filtering.cursor import EpisodeOrder
from episodes.filtering.filters import EpisodeFilter
from episodes.filtering.names import NamedRows
from episodes.models import Episode

LOOKED_AT_FOR_PAGE = 50_000
"""Episodes; reading so many rows takes some 40 ms."""
SORTED = 25_000
"""Episodes that are looked at for the order of a figure, all of them for every page: on PostgreSQL it takes three times
as long, for the rows of one environment stand among those of all others."""
_RANK = (
    *("running", "task", "run", "text", "ends", "people", "split", "model", "environment", "error", "player", "ending"),
    *("curated", "return", "steps", "time"),
)
"""The most telling first."""
_BEFORE_TIME = frozenset(("running", "task", "run", "text", "ends", "people"))
"""What tells more than a span of time that is over: the newest of anything else would be after it."""
_HEAPS = frozenset(("text", "curated", "return", "steps"))
"""Conditions whose index gives episodes in an order of its own."""


@dataclass(frozen=True, slots=True)
class QueryPlan:
    walks: Sequence[Q]
    """Of the condition that finds; several share no episode."""
    beside: Sequence[Lookup[Any] | Q] = ()
    """Checked on what was found."""
    axis: str = "id"
    """Column that rises with time, in whose order `walks` are read for the newest."""
    is_heap: bool = False
    """`walks` are in no order of time: all ids have to be read before they can be sorted."""
    is_by_id: bool = False
    """`walks` are all episodes, so the id tells how many were looked at."""
    is_bounded: bool = False
    """No index answers alone: only LOOKED_AT_FOR_PAGE episodes are looked at."""


def driver_of(conditions: Mapping[str, Condition]) -> str | None:
    """Name of the condition that finds; None: none of them can."""
    able = [name for name in _RANK if name in conditions and _finds(conditions[name])]
    if "time" in able and any(test.lookup == "lt" for test in conditions["time"].tests):
        able = [name for name in able if name in _BEFORE_TIME] + ["time"]
    return next(iter(able), None)


def _finds(condition: Condition) -> bool:
    """Whether an index holds it: most episodes are agents' and without errors."""
    return bool(condition.of_index) or condition.name not in ("player", "error", "step")


def episodes_of(asked: EpisodeFilter) -> AttemptQuerySet[Episode]:
    """Every episode that is asked for, in no order; none when the filter names what nobody has."""
    named = NamedRows.of(asked)
    if named.unknown:
        return Episode.objects.none()
    conditions = conditions_of(asked, named)
    driver = driver_of(conditions)
    others = [check for name, condition in conditions.items() if name != driver for check in condition.beside]
    return Episode.objects.filter(conditions[driver].where if driver else ALL, *others).order_by()


def plan_of(conditions: Mapping[str, Condition], order: EpisodeOrder) -> QueryPlan:
    if order.is_figure:
        return _by_figure(conditions, order)
    if not conditions:
        return QueryPlan([ALL], is_by_id=True)
    if "ends" in conditions and "task" not in conditions:
        return _by_ends(conditions)
    driver = driver_of(conditions)
    alone = set(conditions) - {driver} - ({"environment"} if "curated" in conditions else set())
    if not alone and driver:
        own = conditions[driver]
        axis = "created" if driver == "time" else "id"
        return QueryPlan(own.branches or [own.where], axis=axis, is_heap=driver in _HEAPS)
    return _beside(conditions, driver)


def without_heap(conditions: Mapping[str, Condition]) -> QueryPlan:
    """Of a heap that is too large to be sorted: all episodes by their ids."""
    return _beside(conditions, "environment" if "environment" in conditions else None)


def _beside(conditions: Mapping[str, Condition], driver: str | None) -> QueryPlan:
    """`driver` finds, unless what it finds has no order of time."""
    if driver in _HEAPS - {"text"} or (driver and len(conditions[driver].branches) > 1):
        driver = None
    others = [check for name, condition in conditions.items() if name != driver for check in condition.beside]
    if driver is None:
        return QueryPlan([ALL], others, is_by_id=True, is_bounded=True)
    axis = "created" if driver == "time" else "id"
    return QueryPlan([conditions[driver].where], others, axis=axis, is_heap=driver == "text", is_bounded=True)


def _by_ends(conditions: Mapping[str, Condition], *, is_sorted: bool = True) -> QueryPlan:
    """By the number of the ending, which indexes have after a run, a split, an environment, or alone.

    `is_sorted`: the page is in that order too.
    """
    prefix = next((name for name in ("run", "split", "environment") if name in conditions), "")
    own = [name for name in (prefix, "ends") if name]
    where = ENDED
    for name in own:
        where &= conditions[name].where
    others = [check for name, condition in conditions.items() if name not in own for check in condition.beside]
    return QueryPlan([where], others, axis="end_number", is_bounded=bool(others) or not is_sorted)


def _by_figure(conditions: Mapping[str, Condition], order: EpisodeOrder) -> QueryPlan:
    figure = "return" if order.column.startswith("return_") else order.column.removesuffix("_count")
    if set(conditions) <= {figure}:
        return QueryPlan([conditions[figure].where if conditions else ALL])
    if "ends" in conditions and "task" not in conditions:
        return _by_ends(conditions, is_sorted=False)
    return _beside(conditions, driver_of(conditions))
