"""The leaderboard of an environment or of one of its splits: by model, run or kind of player, with
a row for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from environments.access.privacy import viewer_of
from environments.files.csv_lines import csv_line
from environments.filtering.addresses import takes
from environments.filtering.filters import query_string
from environments.filtering.parameters import chosen, given
from environments.scoring.definition import definition_of
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
from episodes.figures.comparison.pages import task_lines
from episodes.figures.curves.revision_marks import pooled_in
from episodes.figures.leaderboard.leaderboard import Leaderboard, LeaderboardQuery, LeaderboardRow
from episodes.figures.leaderboard.leaderboard_comparison import LeaderboardComparisonQuery
from episodes.figures.ranks import ranks_of
from episodes.figures.run_splits import TOGETHER
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
MAX_TASKS = 50
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


@require_safe
@never_cache
@takes(*LeaderboardComparisonQuery.PARAMETERS)
def leaderboard_compare(request: HttpRequest, name: str) -> HttpResponse:
    """Return the comparison of two models at the tasks of an environment or of one of its splits.
    Raises: BadFilter, Http404."""
    environment, viewer = environment_named(request, name), viewer_of(request.user)
    query = LeaderboardComparisonQuery.parse(request.GET, environment)
    comparison = query.result()
    pairs = (comparison.worse if query.is_worse_only else comparison.different)[:MAX_TASKS]
    lines = task_lines([pair.task for pair in pairs], viewer)
    context = {
        "environment": environment,
        "query": query,
        "comparison": comparison,
        "success": next(iter(comparison.measures), None),
        "rows": [(pair, *lines[pair.task]) for pair in pairs if pair.task in lines],
        "most": MAX_TASKS,
        **definition_context(definition_of(environment), environment),
    }
    return render(request, "figures/leaderboard_compare.html", context)


def _context(leaderboard: Leaderboard, rows: list[LeaderboardRow], sort: str) -> dict[str, Any]:
    runs = Run.objects.filter(name__in=[row.key for row in rows if leaderboard.by == "run"])
    run_of = dict(runs.values_list("name", "pk"))
    ranks = ranks_of(
        [
            (row.success, row.interval) if sort == "success" else (row.mean, row.mean_interval)
            for row in rows
        ]
    )
    players = [row.key for row in rows if row.n and not row.is_human]
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
                _comparison_address(leaderboard, row.key, players, run_of),
            )
            for row, rank in zip(rows, ranks, strict=True)
        ],
        "players": players if leaderboard.by == "model" else [],
        "ks": ks,
        "sort": sort,
        "width": _WHISKER,
        "curves_by": "run" if leaderboard.by == "run" else "model",
        "pooled": pooled_in([scope_of(leaderboard.split or leaderboard.environment)]),
        **definition_context(leaderboard.definition, leaderboard.environment),
    }


def _comparison_address(
    leaderboard: Leaderboard, key: str, players: Sequence[str], run_of: Mapping[str, int]
) -> str:
    """Return the address of the comparison of a model or run with the first in the list, which is
    compared with the second; empty if there is nobody to compare it with."""
    first = next((player for player in players if player != key), None)
    if key not in players or first is None or leaderboard.by == "player":
        return ""
    split = leaderboard.split.name if leaderboard.split else None
    if leaderboard.by == "model":
        base = reverse("leaderboard_compare", args=[leaderboard.environment.name])
        together = None if split else TOGETHER
        return f"{base}?{query_string(first=first, second=key, split=split, splits=together)}"
    if first not in run_of or key not in run_of:
        return ""
    place = query_string(environment=leaderboard.environment.name, split=split)
    return f"{reverse('compare')}?runs={run_of[first]},{run_of[key]}&{place}"


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
    passes = [f"pass@{k}{end}" for k in ks for end in ("", "_low", "_high")]
    head = [leaderboard.by, "is_human", *_COLUMNS, *passes, "pass_tasks", *COVERAGE_COLUMNS]
    yield csv_line(head)
    for row in rows:
        rates = _rates(row)
        yield csv_line(
            [
                row.key,
                row.is_human,
                *(getattr(row, _FIGURES.get(column, column)) for column in _COLUMNS),
                *(
                    getattr(rates.get(k), part, None)
                    for k in ks
                    for part in ("rate", "low", "high")
                ),
                row.passes[0].tasks if row.passes else None,
                *coverage_values(row.coverage),
            ]
        )
