"""Groups of runs that have the same values in their configurations, such as the seeds of one
learning rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from episodes.figures.runs.run_order import RunOrder, RunSums
from episodes.figures.spreads import RunSpread
from episodes.runs.config_values import Scalar, runs_by_values

MAX_GROUPS = 200


@dataclass(frozen=True, slots=True)
class ConfigGroup:
    values: Sequence[str | None]
    """By name, as conditions write them; None for runs without a value."""
    runs: Sequence[int]
    """Ids, newest first."""
    returns: RunSpread | None
    """Of the mean returns of the runs."""
    success: RunSpread | None
    steps: RunSpread | None
    attempts: int
    best: int | None
    """Id of the run with the highest mean return."""


def config_groups(
    values: Mapping[int, Sequence[Scalar]], totals: Mapping[int, RunSums], order: RunOrder
) -> list[ConfigGroup]:
    """Return the groups in the order, MAX_GROUPS at most: by a figure, or else by their values.

    `values`: of each run, by its id, newest first.
    """
    groups = [_group(texts, runs, totals) for texts, runs in runs_by_values(values).items()]
    figure = {"return": "returns", "success": "success", "steps": "steps"}.get(order.name)
    if figure:
        groups.sort(
            key=lambda group: ((spread := getattr(group, figure)) and spread.mean) or 0.0,
            reverse=order.is_descending,
        )
        groups.sort(key=lambda group: getattr(group, figure) is None)
    elif order.name == "attempts":
        groups.sort(key=lambda group: group.attempts, reverse=order.is_descending)
    return groups[:MAX_GROUPS]


def _group(
    values: Sequence[str | None], runs: Sequence[int], totals: Mapping[int, RunSums]
) -> ConfigGroup:
    played = {run: totals[run] for run in runs if run in totals}
    means = {run: mean for run, part in played.items() if (mean := part.mean) is not None}
    return ConfigGroup(
        values,
        runs,
        RunSpread.of(list(means.values())),
        RunSpread.of([part.success for part in played.values()]),
        RunSpread.of([part.length_mean for part in played.values()]),
        sum(part.attempts for part in played.values()),
        max(means, key=means.__getitem__, default=None),
    )
