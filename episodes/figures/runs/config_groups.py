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
STRIP_WIDTH, STRIP_MARGIN = 120, 4
UNFINISHED = ("failed", "silent", "running")
"""States of runs whose figures may not be those of a whole training."""


class SuccessStrip(NamedTuple):
    """The success rates of runs on a line from 0% to 100%; places are pixels from the left."""

    mean: float
    low: float
    """Ends of the mean ± one standard deviation, within the line."""
    high: float
    runs: Sequence[float]


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
    """Id of the run that succeeds most often, of equal ones that with the highest mean return."""
    success_rates: Sequence[float]
    """Of its runs."""

    @property
    def strip(self) -> SuccessStrip | None:
        """The success rates of its runs, drawn; None without any."""
        if self.success is None:
            return None
        mean, deviation = self.success.mean, self.success.deviation or 0.0
        low, high = max(0.0, mean - deviation), min(1.0, mean + deviation)
        middle, left, right, *places = [
            round(STRIP_MARGIN + rate * (STRIP_WIDTH - 2 * STRIP_MARGIN), 1)
            for rate in (mean, low, high, *self.success_rates)
        ]
        return SuccessStrip(middle, left, right, places)


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
    totals = {run: runs.totals[run] for run in members if runs.totals[run].mean is not None}
    is_mixed = len(places) > 1
    rates = [rate for run in members if (rate := runs.totals[run].success) is not None]
    return ConfigGroup(
        values,
        ids,
        {state: states[state] for state in UNFINISHED if states[state]},
        places,
        None if is_mixed else RunSpread.of([total.mean for total in totals.values()]),
        None if is_mixed else RunSpread.of(rates),
        RunSpread.of([runs.all[run].length_mean for run in members]),
        sum(runs.all[run].attempts for run in members),
        None
        if is_mixed
        else max(totals, key=lambda run: (totals[run].success, totals[run].mean), default=None),
        rates,
    )
