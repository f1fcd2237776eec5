"""Scopes: whose endings are put together, and what they say as columns. Shared by `blocks.py` and `spans.py`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from environments.database.bulk_writer import BulkWriter, Values
from environments.models import Environment
from episodes.attempts.endings import Ending, Epoch
from episodes.attempts.summary import FACTS, SKETCHES, Summary

ScopeKind = Literal["environment", "split", "run"]
SCOPES: tuple[ScopeKind, ...] = ("environment", "split", "run")
COLUMNS = (*FACTS, *SKETCHES)
"""Of a Summed row, besides those that say of what it is."""


class RollupScope(NamedTuple):
    kind: ScopeKind
    id: int


Edges = tuple[float, ...]


def edges_of_environments() -> dict[int, Edges]:
    """By environment the thresholds that tell its successes exactly, ascending: the class's, and the one in force.

    Both: what is put together while somebody has changed it shall be exact again when the class's is restored.
    """
    rows = Environment.objects.values_list("pk", "declared_threshold", "success_threshold")
    return {pk: tuple(sorted(set(thresholds))) for pk, *thresholds in rows}


def by_scope(endings: Iterable[Ending]) -> dict[RollupScope, list[Ending]]:
    """Each ending in every scope that it belongs to, in their order."""
    found: dict[RollupScope, list[Ending]] = {}
    for ending in endings:
        found.setdefault(RollupScope("environment", ending.environment), []).append(ending)
        if ending.split is not None:
            found.setdefault(RollupScope("split", ending.split), []).append(ending)
        if ending.run is not None:
            found.setdefault(RollupScope("run", ending.run), []).append(ending)
    return found


def columns_read() -> list[Any]:
    """COLUMNS for `summary.read_summary`."""
    return [Epoch(name) if name in ("began", "ended") else name for name in COLUMNS]


def values_of(summary: Summary, writer: BulkWriter) -> Values:
    """In the order of COLUMNS."""
    facts = {name: getattr(summary, name) for name in FACTS}
    facts |= {"began": writer.time(summary.began), "ended": writer.time(summary.ended)}
    facts["causes"] = json.dumps(summary.causes, separators=(",", ":"))
    sketches = [json.dumps(summary.sketches[name], separators=(",", ":")) for name in SKETCHES]
    return (*facts.values(), *sketches)
