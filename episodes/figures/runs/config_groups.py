"""Groups of runs that have the same values in their configurations, such as the seeds of one
learning rate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from episodes.figures.runs.run_order import RunOrder
from episodes.figures.runs.stored_totals import RunSums
from episodes.figures.spreads import RunSpread
from episodes.runs.config_values import Scalar, runs_by_values

MAX_GROUPS = 200
UNFINISHED = ("failed", "silent", "running")
"""States of runs whose figures may not be those of a whole training."""


class GroupedRuns(NamedTuple):
    """What is known of the runs that are grouped, by their ids."""

    all: Mapping[int, RunSums]
    """Over all of their episodes."""
    totals: Mapping[int, RunSums]
    """Over what return and success are shown of."""
    places: Mapping[int, str]
    """Where their episodes were played."""
    states: Mapping[int, str]
    """Of those that their trainers described."""


@dataclass(frozen=True, slots=True)
class ConfigGroup:
    values: Sequence[str | None]
    """By name, as conditions write them; None for runs without a value."""
    runs: Sequence[int]
    """Ids, newest first."""
    states: Mapping[str, int]
    """Number of its runs that have failed, have become silent, or are still running, by state."""
    places: list[str]
    """Where its runs were played. Those of several are not averaged."""
    returns: RunSpread | None
    """Of the mean returns of the runs."""
    success: RunSpread | None
    steps: RunSpread | None
    attempts: int
    best: int | None
    """Id of the run with the highest mean return."""


def config_groups(
    values: Mapping[int, Sequence[Scalar]], runs: GroupedRuns, order: RunOrder
) -> list[ConfigGroup]:
    """Return the groups in the order, MAX_GROUPS at most: by a figure, or else by their values.

    `values`: of each run, by its id, newest first.
    """
    groups = [_group(texts, ids, runs) for texts, ids in runs_by_values(values).items()]
    figure = {"return": "returns", "success": "success", "steps": "steps"}.get(order.name)
    if figure:
        groups.sort(
            key=lambda group: ((spread := getattr(group, figure)) and spread.mean) or 0.0,
            reverse=order.is_descending,
        )
        if order.is_within_places:
            groups.sort(key=lambda group: group.places)
        groups.sort(key=lambda group: getattr(group, figure) is None)
    elif order.name == "attempts":
        groups.sort(key=lambda group: group.attempts, reverse=order.is_descending)
    return groups[:MAX_GROUPS]


def _group(values: Sequence[str | None], ids: Sequence[int], runs: GroupedRuns) -> ConfigGroup:
    members = [run for run in ids if run in runs.all]
    states = Counter(runs.states.get(run, "") for run in ids)
    places = sorted({runs.places[run] for run in members})
    means = {run: mean for run in members if (mean := runs.totals[run].mean) is not None}
    is_mixed = len(places) > 1
    return ConfigGroup(
        values,
        ids,
        {state: states[state] for state in UNFINISHED if states[state]},
        places,
        None if is_mixed else RunSpread.of(list(means.values())),
        None if is_mixed else RunSpread.of([runs.totals[run].success for run in members]),
        RunSpread.of([runs.all[run].length_mean for run in members]),
        sum(runs.all[run].attempts for run in members),
        None if is_mixed else max(means, key=means.__getitem__, default=None),
    )
