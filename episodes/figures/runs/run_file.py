"""The list of runs as a CSV file: all of its runs, a line for each."""

from __future__ import annotations

from collections.abc import Iterator

from environments.database.json_rows import among
from environments.files.csv_lines import csv_line
from environments.models import Environment, Split
from environments.scoring.definition import definitions_in_force
from episodes.figures.runs.run_columns import column_values, order_by_column
from episodes.figures.runs.run_list import RunListQuery
from episodes.figures.runs.run_states import last_activity_of
from episodes.figures.runs.stored_totals import (
    RunSums,
    latest_by_run,
    stored_totals,
    totals_by_run,
    totals_in,
)
from episodes.models import Run

COLUMNS = (
    *("id", "name", "model", "state", "step", "tags", "created", "last_activity"),
    *("environment", "split", "attempts", "return", "success", "steps"),
    *("latest_return", "latest_success"),
)
"""The last two are over the latest training steps."""


def csv_lines(query: RunListQuery) -> Iterator[str]:
    """Yield the lines of the file, those of MAX_SORTED runs at most. The columns that the
    query names stand last. Raises: BadFilter for a split that no environment has."""
    ids, definitions = query.ids(), definitions_in_force(query.definition)
    rows_by_run = totals_in(query.splits, stored_totals(ids, definitions), query.viewer)
    totals = totals_by_run(rows_by_run, definitions)
    latest = latest_by_run(rows_by_run, definitions)
    environments = dict(Environment.objects.seen_by(query.viewer).values_list("pk", "name"))
    splits = dict(Split.objects.seen_by(query.viewer).values_list("pk", "name"))
    runs = Run.objects.prefetch_related("tags").defer("notes", "config").in_bulk(ids)
    values = column_values(Run.objects.filter(among("pk", ids)), query.columns)
    yield csv_line([*COLUMNS, *map(order_by_column, query.columns)])
    for run in (runs[pk] for pk in ids if pk in runs):
        rows, total = rows_by_run.get(run.pk, []), totals.get(run.pk, RunSums())
        end = latest.get(run.pk, total)
        environment_names = {environments.get(row.environment, "") for row in rows}
        split_names = {splits.get(row.split, "") for row in rows}
        yield csv_line(
            [
                *(run.pk, run.name, run.model, run.state, run.step, ";".join(run.tag_names)),
                *(run.created, last_activity_of(run, rows)),
                *(";".join(sorted(names - {""})) for names in (environment_names, split_names)),
                *(total.attempts, total.mean, total.success, total.length_mean),
                *(end.mean, end.success),
                *(values.get(run.pk, {}).get(name) for name in query.columns),
            ]
        )
