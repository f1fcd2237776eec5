"""The pages of suites: the list, the leaderboard of a version, and two models or runs compared over
it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast, get_args

from django.db.models import Prefetch
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from environments.access.permissions import PUBLISH_SUITES, SEE_HIDDEN
from environments.access.privacy import viewer_of
from environments.display.addresses import cannot_be_used, takes
from environments.filtering.parameters import chosen, given, words
from environments.service import task_line
from environments.tasks.task_facts import task_names
from episodes.dashboard.compare_runs import tasks_shown
from episodes.models import Run, Suite, SuiteVersion
from episodes.suites.comparison import compared
from episodes.suites.results import Players
from episodes.suites.scores import shares_of
from episodes.suites.standings import SuiteRow, SuiteStandings, citation_of, rows_named, standings
from episodes.suites.versions import definition_of_member, version_named
from episodes.transfer.csv_lines import csv_line

BY: tuple[Players, ...] = get_args(Players)
SHOWN_TASKS = 50
MAX_SUITES = 200
_WHISKER = 120
"""Width of the drawn interval of a success rate, in pixels."""


@require_safe
@never_cache
@takes()
def suites(request: HttpRequest) -> HttpResponse:
    """Return the list of suites, each with its latest version."""
    versions = SuiteVersion.objects.order_by("-number").prefetch_related("members__environment")
    rows = Suite.objects.seen_by(viewer_of(request.user)).prefetch_related(
        Prefetch("versions", versions)
    )[:MAX_SUITES]
    lines = [(row, row.versions.all()[0], row.versions.all()[0].members.all()) for row in rows]
    shown = [
        (row, version, members, sum(one.tasks_count for one in members))
        for row, version, members in lines
    ]
    may_publish = request.user.has_perm(PUBLISH_SUITES)
    return render(request, "suites/suites.html", {"lines": shown, "may_publish": may_publish})


@require_safe
@never_cache
@takes("by", "cite", "format")
def suite(request: HttpRequest, name: str, version_number: int | None = None) -> HttpResponse:
    """Return the page of a version, the latest one unless `version_number` is given, or its
    leaderboard as CSV.

    Raises: Http404, BadRequest.
    """
    version = asked_version(request, name, version_number)
    by = given(request.GET, "by", chosen(BY)) or "model"
    given(request.GET, "format", chosen(("csv",)))
    cite = given(request.GET, "cite", words)
    found = standings(version, viewer_of(request.user), by)
    if cite is not None and cite not in [row.key for row in found.ranked]:
        raise cannot_be_used("cite", cite, f"no {by} of this name has a rank here")
    if request.GET.get("format") == "csv":
        file = f"{version.suite.name}-v{version.number}.csv"
        headers = {
            "Content-Disposition": f'attachment; filename="{file}"',
            "X-Suite-Hash": version.hash,
        }
        return HttpResponse(
            "".join(_csv(found)), content_type="text/csv; charset=utf-8", headers=headers
        )
    return render(request, "suites/suite.html", _context(request, found, cite))


@require_safe
@never_cache
@takes("by", "first", "second")
def suite_compare(request: HttpRequest, name: str, version_number: int) -> HttpResponse:
    """Return the comparison of two models or runs over a version. Raises: Http404, BadRequest."""
    version = asked_version(request, name, version_number)
    by = given(request.GET, "by", chosen(BY)) or "model"
    names = tuple(given(request.GET, place, words) or "" for place in ("first", "second"))
    found = compared(
        version, by, cast(tuple[str, str], names), SHOWN_TASKS, viewer_of(request.user)
    )
    tasks = tasks_shown([pair.task for pair in found.tasks], viewer_of(request.user))
    places = task_names(list(tasks))
    context = {
        "version": version,
        "by": by,
        "found": found,
        "counted": rows_named(version, by, found.names),
        "rows": [
            (
                pair,
                places[pair.task],
                task_line(tasks[pair.task].environment, tasks[pair.task].spec),
            )
            for pair in found.tasks
            if pair.task in tasks
        ],
    }
    return render(request, "suites/suite_compare.html", context)


def asked_version(request: HttpRequest, name: str, number: int | None = None) -> SuiteVersion:
    """Return a version with its suite; the latest without `number`. Raises: Http404."""
    found = version_named(name, number, viewer_of(request.user))
    if isinstance(found, str):
        raise Http404(found)
    return found


def _context(request: HttpRequest, found: SuiteStandings, cite: str | None) -> dict[str, Any]:
    version = found.version
    numbers = list(version.suite.versions.order_by("number").values_list("number", flat=True))
    ranked = found.ranked
    cited = next(
        (row for row in ranked if row.key == cite), ranked[0] if ranked and cite is None else None
    )
    runs = dict(
        Run.objects.filter(name__in=[row.key for row in found.rows]).values_list("name", "pk")
    )
    run_of = runs if found.by == "run" else {}
    shares = shares_of([member.weight for member in found.members])
    definitions = [definition_of_member(member) for member in found.members]
    return {
        "version": version,
        "found": found,
        "numbers": numbers,
        "latest": numbers[-1],
        "members": list(zip(found.members, shares, definitions, strict=True)),
        "ranked": [
            (row, run_of.get(row.key), _whisker(row), list(_columns(found, row))) for row in ranked
        ],
        "others": [(row, run_of.get(row.key), list(_columns(found, row))) for row in found.others],
        "cited": cited,
        "citation": citation_of(found, cited, request.build_absolute_uri(_address(version)))
        if cited
        else "",
        "width": _WHISKER,
        "may_publish": request.user.has_perm(PUBLISH_SUITES),
        "sees_salt": request.user.has_perm(SEE_HIDDEN),
    }


def _address(version: SuiteVersion) -> str:
    return reverse("suite_version", args=[version.suite.name, version.number])


def _columns(found: SuiteStandings, row: SuiteRow) -> Iterator[tuple[Any, Any]]:
    yield from zip(found.members, row.members, strict=True)


def _whisker(row: SuiteRow) -> dict[str, float] | None:
    """Return the positions of the score and the ends of its interval, in pixels up to _WHISKER."""
    if row.score is None or row.score.interval is None:
        return None
    low, high = row.score.interval
    ends = {"low": low, "at": row.score.value, "high": high}
    return {name: round(min(1.0, max(0.0, value)) * _WHISKER, 1) for name, value in ends.items()}


def _csv(found: SuiteStandings) -> Iterator[str]:
    version, parts = found.version, ("score", "low", "high", "tasks", "attempts")
    labels = [f"{member.number} {member.label}" for member in found.members]
    heads = ["suite", "version", "sha256", found.by, "rank", *parts, "suite_tasks"]
    yield csv_line([*heads, *(f"{label} {part}" for label in labels for part in parts)])
    for row in found.rows:
        line = [version.suite.name, version.number, version.hash, row.key, row.rank]
        line += [row.value, row.low, row.high, row.tasks, row.attempts, found.tasks]
        for one in row.members:
            line += [one.score, one.low, one.high, one.tasks, one.attempts]
        yield csv_line(line)
