"""Runs of a chart grouped by values of their configuration: the mean of their curves, with the
standard deviation over the runs, which are usually seeds."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import NamedTuple

from environments.errors import shorten
from episodes.figures.block_queries import Axis
from episodes.models import Run
from episodes.runs.config_values import Scalar, config_values, runs_by_values, value_text

MAX_LABEL = 80
"""Characters of a label: a value can be a list of any length."""
TIME_CELLS = 100
"""Parts of the axis of time, in each of which the points of a run count together."""


@dataclass(frozen=True, slots=True)
class RunGroup:
    label: str
    """Such as "learning_rate = 1e-05"; no other group has it."""
    runs: Collection[int]
    """Ids of its runs."""


class GroupPoint(NamedTuple):
    x: float
    x_to: float
    mean: float
    """Mean of the values of the runs."""
    deviation: float | None
    """Their standard deviation; None of a single run."""
    lowest: float
    highest: float
    n: int
    """Number of runs that have a value there."""


def configs_of(runs: Sequence[Run]) -> dict[int, dict[str, Scalar]]:
    """Return the values in the configuration of each run, by its id. One query."""
    rows = Run.objects.filter(pk__in=[run.pk for run in runs]).values_list("pk", "config")
    return {pk: config_values(config) for pk, config in rows}


def names_that_differ(configs: Mapping[int, Mapping[str, Scalar]]) -> list[str]:
    """Return the names of the values that some of the runs have and that are not the same in all of
    them, in order."""
    names = dict.fromkeys(name for values in configs.values() for name in values)
    return [
        name
        for name in names
        if len({value_text(values[name]) if name in values else "" for values in configs.values()})
        > 1
    ]


def names_of_settings(
    names: Sequence[str], configs: Mapping[int, Mapping[str, Scalar]]
) -> list[str]:
    """Return those of the names that differ by which groups have two runs or more on average, as
    seeds of a setting are; if all of them together make smaller groups, the first. No name of a
    seed."""

    def are_groups(names: Sequence[str]) -> bool:
        return 2 * len(groups_by(names, configs)) <= len(configs)

    settings = [name for name in names if "seed" not in name.lower() and are_groups([name])]
    return settings if are_groups(settings) else settings[:1]


def groups_by(names: Sequence[str], configs: Mapping[int, Mapping[str, Scalar]]) -> list[RunGroup]:
    """Return the runs by the values of these names that each has in its configuration: by size if
    these are numbers, runs without a value last."""
    values = {pk: [config.get(name) for name in names] for pk, config in configs.items()}
    groups, counts = list[RunGroup](), Counter[str]()
    for texts, runs in runs_by_values(values).items():
        pairs = zip(names, texts, strict=True)
        parts = [f"no {name}" if text is None else f"{name} = {text}" for name, text in pairs]
        label = shorten(", ".join(parts), MAX_LABEL)
        counts[label] += 1
        number = f" ({counts[label]})" if counts[label] > 1 else ""
        groups.append(RunGroup(f"{label}{number}", runs))
    return groups


def mean_curve(
    curves: Sequence[Sequence[tuple[float, float, float | None]]], axis: Axis
) -> list[GroupPoint]:
    """Return the mean of curves whose points are (x, x_to, value), over parts of the axis that are
    as wide as their widest point, so that each curve has about one point in each."""
    points = [point for curve in curves for point in curve]
    if not points:
        return []
    low, high = min(x for x, _, _ in points), max(x_to for _, x_to, _ in points)
    if axis == "time":
        width = (high - low) / TIME_CELLS or 1.0
    else:
        width = max(x_to - x for x, x_to, _ in points) + (axis == "step") or 1.0
    ends, values = dict[int, tuple[float, float]](), defaultdict[int, list[float]](list)
    for curve in curves:
        own = defaultdict[int, list[float]](list)
        for x, x_to, value in curve:
            if value is None:
                continue
            cell = math.floor((x - low) / width)
            first, last = ends.get(cell, (x, x_to))
            ends[cell] = min(first, x), max(last, x_to)
            own[cell].append(value)
        for cell, among in own.items():
            values[cell].append(fmean(among))
    return [
        GroupPoint(
            *(*ends[cell], fmean(runs), stdev(runs) if len(runs) > 1 else None),
            *(min(runs), max(runs), len(runs)),
        )
        for cell, runs in sorted(values.items())
    ]
