"""Scopes of rollups: the environments, splits and runs whose endings are summarized together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from environments.models import Environment
from environments.scoring.returns import bar_of
from episodes.attempts.endings import Ending

ScopeKind = Literal["environment", "split", "run"]
SCOPES: tuple[ScopeKind, ...] = ("environment", "split", "run")


class RollupScope(NamedTuple):
    kind: ScopeKind
    id: int


Edges = tuple[float, ...]
"""Bars of success (see `environments/scoring/returns.py`), in ascending order."""


def edges_of_environments() -> dict[int, Edges]:
    """Return, by environment id, the bars at which its summaries count successes exactly.

    These belong to the threshold that the class declares and to the one in force: a summary that is
    made while the threshold is changed is then exact again when the declared one is restored.
    """
    rows = Environment.objects.values_list("pk", "declared_threshold", "success_threshold")
    return {
        pk: tuple(sorted({bar_of(threshold) for threshold in thresholds}))
        for pk, *thresholds in rows
    }


def by_scope(endings: Iterable[Ending]) -> dict[RollupScope, list[Ending]]:
    """Return the endings of each scope in their order; an ending is in every scope that it belongs
    to.

    Those of people are in no environment and split, so that they are not in the curves by which
    tasks for agents are chosen.
    """
    parts: dict[RollupScope, list[Ending]] = {}
    for ending in endings:
        is_counted = ending.player != "human"
        if is_counted:
            parts.setdefault(RollupScope("environment", ending.environment), []).append(ending)
        if is_counted and ending.split is not None:
            parts.setdefault(RollupScope("split", ending.split), []).append(ending)
        if ending.run is not None:
            parts.setdefault(RollupScope("run", ending.run), []).append(ending)
    return parts


class Place(NamedTuple):
    """Where episodes of a scope were played, which its rows are divided by."""

    environment: int
    split: int
    """Of a run: the split; 0 for episodes of none, and in other scopes."""


def place_of(scope: ScopeKind, ending: Ending) -> Place:
    return Place(ending.environment, (ending.split or 0) if scope == "run" else 0)


def by_place(scope: ScopeKind, endings: Iterable[Ending]) -> dict[Place, list[Ending]]:
    """Return the endings of a scope in each place, in their order."""
    parts: dict[Place, list[Ending]] = {}
    for ending in endings:
        parts.setdefault(place_of(scope, ending), []).append(ending)
    return parts
