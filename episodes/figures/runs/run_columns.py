"""Columns of the list of runs: values of their configurations, and the last ones of the scalars that
their trainers report."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from django.db.models import QuerySet

from episodes.figures.curves.figure_menu import SCALAR
from episodes.models import Run, ScalarSeries
from episodes.runs.config_values import CONFIGS_AT_ONCE, Scalar, named_values, value_text

CONFIG = "config."
"""Start of the name of an order by a value of the configuration."""


def order_by_column(column: str) -> str:
    """Return the name of the order by a column."""
    return column if column.startswith(SCALAR) else f"{CONFIG}{column}"


def column_values(runs: QuerySet[Run], columns: Collection[str]) -> dict[int, dict[str, Scalar]]:
    """Return the values of each run that has some of the columns, by its id. Two queries at most."""
    names = [column.removeprefix(SCALAR) for column in columns if column.startswith(SCALAR)]
    values = dict[int, dict[str, Scalar]]()
    if len(names) < len(columns):
        configs = runs.exclude(config="").order_by().values_list("pk", "config")
        for pk, config in configs.iterator(CONFIGS_AT_ONCE):
            values[pk] = named_values(config, columns)
    if names:
        series = ScalarSeries.objects.filter(run__in=runs.order_by(), name__in=names)
        for pk, name, last in series.filter(last__isnull=False).values_list("run", "name", "last"):
            values.setdefault(pk, {})[f"{SCALAR}{name}"] = last
    return values


def scalar_columns(runs: Iterable[Run]) -> list[str]:
    """Return the columns of the scalars of these runs. One query."""
    names = ScalarSeries.objects.filter(run__in=[run.pk for run in runs]).order_by("name")
    return [f"{SCALAR}{name}" for name in names.values_list("name", flat=True).distinct()]


def cell_text(value: Scalar) -> str:
    """Return a value as cells show it."""
    return f"{value:.6g}" if isinstance(value, float) else value_text(value)
