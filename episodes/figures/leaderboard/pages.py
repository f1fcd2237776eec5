"""The leaderboard of an environment or of one of its splits: by model, run or kind of player, with
a row for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from environments.access.privacy import viewer_of
from environments.files.csv_lines import csv_line
from environments.filtering.addresses import takes
from environments.filtering.filters import query_string
from environments.filtering.parameters import chosen, given
from episodes.attempts.conventions import parts_in_address
from episodes.attempts.file_headers import (
    COVERAGE_COLUMNS,
    coverage_header,
    coverage_values,
    csv_response,
    definition_header,
)
from episodes.dashboard.guards import environment_named
from episodes.dashboard.view_parameters import definition_context
from episodes.figures.curves.revision_marks import pooled_in
from episodes.figures.leaderboard.leaderboard import Leaderboard, LeaderboardQuery, LeaderboardRow
from episodes.figures.ranks import ranks_of
from episodes.figures.scopes import scope_of
from episodes.models import Run

SORTS = ("mean", "success", "n", "coverage", "key")
_FIGURES = {"coverage": "tasks_share"}
"""Names of columns in addresses and files -> attributes of a row, where they differ."""
_COLUMNS = (
    "n",
    "mean",
    "error",
    "successes",
    "success",
    "success_low",
    "success_high",
    "tasks",
    "coverage",
)
MAIN_K = (1, 2, 4, 8, 16, 32, 64)
_WHISKER = 120
"""Width of the drawn interval of a success rate, in pixels."""


@require_safe
@never_cache
@takes(*LeaderboardQuery.PARAMETERS, "sort", "format")
def board(request: HttpRequest, name: str) -> HttpResponse:
    """Return the leaderboard as a page or as CSV. Raises: BadFilter, Http404."""
    environment = environment_named(request, name)
    sort = given(request.GET, "sort", chosen(SORTS)) or "mean"
    is_csv = given(request.GET, "format", chosen(("csv",))) is not None
    leaderboard = LeaderboardQuery.parse(request.GET, environment, viewer_of(request.user)).result()
    figure = _FIGURES.get(sort, sort)
    rows = sorted(leaderboard.rows, key=lambda row: row.key)
    if sort != "key":  # the best first
        rows.sort(key=lambda row: (getattr(row, figure) is None, -(getattr(row, figure) or 0.0)))
    if not is_csv:
        return render(request, "figures/leaderboard.html", _context(leaderboard, rows, sort))
    file = f"leaderboard-{environment.name}.csv".replace('"', "")
    headers = definition_header(leaderboard.definition)
    headers |= coverage_header(row.coverage for row in rows)
    return csv_response(file, _lines(leaderboard, rows), headers)


def _context(leaderboard: Leaderboard, rows: list[LeaderboardRow], sort: str) -> dict[str, Any]:
    runs = Run.objects.filter(name__in=[row.key for row in rows if leaderboard.by == "run"])
    run_of = dict(runs.values_list("name", "pk"))
    ranks = ranks_of(
        [
            (row.success, row.interval) if sort == "success" else (row.mean, row.mean_interval)
            for row in rows
        ]
    )
    ks = [k for k in MAIN_K if any(rate.k == k for row in rows for rate in row.passes)]
    return {
        "board": leaderboard,
        "environment": leaderboard.environment,
        "splits": leaderboard.environment.splits.filter(is_served=True),
        "lines": [
            (
                row,
                _query(leaderboard, row, "attempt"),
                _query(leaderboard, row),
                {
                    name: round(share * _WHISKER, 1)
                    for name, share in (
                        ("low", row.success_low),
                        ("at", row.success),
                        ("high", row.success_high),
                    )
                    if share is not None
                },
                [_rates(row).get(k) for k in ks],
                run_of.get(row.key),
                rank,
            )
            for row, rank in zip(rows, ranks, strict=True)
        ],
        "ks": ks,
        "sort": sort,
        "width": _WHISKER,
        "curves_by": "run" if leaderboard.by == "run" else "model",
        "pooled": pooled_in([scope_of(leaderboard.split or leaderboard.environment)]),
        **definition_context(leaderboard.definition, leaderboard.environment),
    }


def _rates(row: LeaderboardRow) -> dict[int, Any]:
    """Return pass@k of a row by k."""
    return {rate.k: rate for rate in row.passes}


def _query(leaderboard: Leaderboard, row: LeaderboardRow, ending: str | None = None) -> str:
    """Return the query string of the Episodes page that lists the episodes of a row, or those with
    this ending."""
    by = "player" if row.is_human else leaderboard.by
    names = {"split": leaderboard.split.name if leaderboard.split else None, by: row.key}
    parts = parts_in_address(leaderboard.definition.convention, leaderboard.environment)
    return query_string(environment=leaderboard.environment.name, **names, ending=ending, **parts)


def _lines(leaderboard: Leaderboard, rows: Sequence[LeaderboardRow]) -> Iterator[str]:
    """Yield the lines of the CSV file."""
    ks = sorted({k for row in rows for k in _rates(row)})
    passes = [f"pass@{k}" for k in ks]
    head = [leaderboard.by, "is_human", *_COLUMNS, *passes, "pass_tasks", *COVERAGE_COLUMNS]
    yield csv_line(head)
    for row in rows:
        rates = _rates(row)
        yield csv_line(
            [
                row.key,
                row.is_human,
                *(getattr(row, _FIGURES.get(column, column)) for column in _COLUMNS),
                *(rates[k].rate if k in rates else None for k in ks),
                row.passes[0].tasks if row.passes else None,
                *coverage_values(row.coverage),
            ]
        )
