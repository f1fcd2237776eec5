"""The pages of suites: the list, the leaderboard of a version, and two models or runs compared over
it."""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import Prefetch
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from environments.access.permissions import PUBLISH_SUITES, SEE_HIDDEN
from environments.access.privacy import viewer_of
from environments.files.csv_lines import csv_line
from environments.filtering.addresses import takes
from environments.filtering.filters import query_string
from environments.filtering.parameters import BadFilter, any_text, chosen, given
from episodes.attempts.file_headers import csv_response
from episodes.figures.comparison.measures import MEASURE_BY_NAME
from episodes.figures.comparison.pages import task_lines
from episodes.models import Run, Suite, SuiteMember, SuiteVersion
from episodes.suites.comparison import compare
from episodes.suites.episode_filter import SuitePart
from episodes.suites.results import BY
from episodes.suites.scores import shares_of
from episodes.suites.standings import (
    SuiteRow,
    SuiteStandings,
    citation_of,
    outlines_of,
    rows_by_name,
    standings,
)
from episodes.suites.versions import (
    definition_of_member,
    quarantined_counts,
    quarantined_tasks,
    version_named,
)

MAX_TASKS = 50
MAX_SUITES = 200
MAX_BROKEN = 10
NO_INTERVAL = (None, None)
WHISKER_PIXELS = 120
"""Width of the drawn interval of a success rate."""


@require_safe
@never_cache
@takes()
def suites(request: HttpRequest) -> HttpResponse:
    """Return the list of suites, each with the results of its latest version."""
    members = SuiteMember.objects.order_by("number").select_related("environment", "split")
    versions = SuiteVersion.objects.order_by("-number").select_related("suite")
    rows = Suite.objects.seen_by(viewer_of(request.user)).prefetch_related(
        Prefetch("versions", versions.prefetch_related(Prefetch("members", members)))
    )
    latest = [row.versions.all()[0] for row in rows[:MAX_SUITES]]
    outlines = outlines_of(latest)
    quarantine_counts = quarantined_counts([version.pk for version in latest])
    lines = []
    for version in latest:
        outline = outlines.get(version.pk)
        best = outline.ranked[0] if outline and outline.ranked else None
        tasks = sum(member.tasks_count for member in version.members.all())
        whisker = _whisker(best) if best and version.score == "success" else None
        lines.append((version, tasks, outline, best, whisker, quarantine_counts.get(version.pk, 0)))
    context = {
        "lines": lines,
        "width": WHISKER_PIXELS,
        "may_publish": request.user.has_perm(PUBLISH_SUITES),
    }
    return render(request, "suites/suites.html", context)


@require_safe
@never_cache
@takes("by", "cite", "format")
def suite(request: HttpRequest, name: str, version_number: int | None = None) -> HttpResponse:
    """Return the page of a version, the latest one without `version_number`, or its leaderboard as
    CSV.

    Raises: Http404, BadRequest.
    """
    version = version_or_404(request, name, version_number)
    by = given(request.GET, "by", chosen(BY)) or "model"
    file_format = given(request.GET, "format", chosen(("csv",)))
    cite = given(request.GET, "cite", any_text)
    viewer = viewer_of(request.user)
    results = standings(version, viewer, by)
    cited_row = next((row for row in results.ranked if cite in (row.key, None)), None)
    if cite is not None and cited_row is None:
        raise BadFilter("cite", cite, f"no {by} of this name has a rank here")
    if file_format == "csv":
        file = f"{version.suite.name}-v{version.number}.csv"
        return csv_response(file, _csv(results), {"X-Suite-Hash": version.hash})
    runs = {}
    if by == "run":
        names = [row.key for row in results.rows]
        runs = dict(Run.objects.filter(name__in=names).values_list("name", "pk"))
    shares = shares_of([member.weight for member in results.members])
    definitions = [definition_of_member(member) for member in results.members]
    failures = {task.task: task.failures for task in results.failing_tasks}
    quarantined_ids = quarantined_tasks(version)
    broken_ids = list(dict.fromkeys([*failures, *quarantined_ids]))
    lines = task_lines(broken_ids[:MAX_BROKEN], viewer)
    address = reverse("suite_version", args=[version.suite.name, version.number])
    context = {
        "version": version,
        "results": results,
        "numbers": results.numbers,
        "members": list(zip(results.members, shares, definitions, strict=True)),
        "ranked": [
            (row, runs.get(row.key), _whisker(row), _comparison_address(results, row.key))
            for row in results.ranked
        ],
        "others": [(row, runs.get(row.key)) for row in results.others],
        "quarantined": len(quarantined_ids),
        "broken": [
            (*lines[task], failures.get(task, 0))
            for task in broken_ids[:MAX_BROKEN]
            if task in lines
        ],
        "has_more_broken": len(broken_ids) > MAX_BROKEN,
        "are_the_same": failures.keys() == set(quarantined_ids)
        and results.failing == len(quarantined_ids),
        "part": SuitePart(version.suite.name, version.number),
        "cited": cited_row,
        "citation": cited_row
        and citation_of(results, cited_row, request.build_absolute_uri(address)),
        "width": WHISKER_PIXELS,
        "may_publish": request.user.has_perm(PUBLISH_SUITES),
        "sees_salt": request.user.has_perm(SEE_HIDDEN),
    }
    return render(request, "suites/suite.html", context)


@require_safe
@never_cache
@takes("by", "first", "second", "tasks")
def suite_compare(request: HttpRequest, name: str, version_number: int) -> HttpResponse:
    """Return the comparison of two models or runs over a version; with `tasks=worse` only those
    tasks are listed at which the second is worse than the first. Raises: Http404, BadRequest."""
    version = version_or_404(request, name, version_number)
    by = given(request.GET, "by", chosen(BY)) or "model"
    first, second = (given(request.GET, place, any_text) or "" for place in ("first", "second"))
    viewer = viewer_of(request.user)
    is_worse = given(request.GET, "tasks", chosen(("worse",))) is not None
    comparison = compare(version, by, (first, second), viewer)
    pairs = (comparison.worse if is_worse else comparison.tasks)[:MAX_TASKS]
    lines = task_lines([pair.task for pair in pairs], viewer)
    context = {
        "version": version,
        "by": by,
        "comparison": comparison,
        "players": rows_by_name(version, by, (second, first)),
        "measure": MEASURE_BY_NAME[version.score],
        "is_worse": is_worse,
        "rows": [(pair, *lines[pair.task]) for pair in pairs if pair.task in lines],
    }
    return render(request, "suites/suite_compare.html", context)


def version_or_404(request: HttpRequest, name: str, number: int | None = None) -> SuiteVersion:
    """Return a version with its suite; the latest without `number`. Raises: Http404."""
    version = version_named(name, number, viewer_of(request.user))
    if isinstance(version, str):
        raise Http404(version)
    return version


def _comparison_address(results: SuiteStandings, key: str) -> str:
    """Return the address of the comparison of a ranked row with the first, which is compared with
    the second; empty if it is the only one."""
    first = next((row.key for row in results.ranked if row.key != key), None)
    if first is None:
        return ""
    version, by = results.version, None if results.by == "model" else results.by
    page = reverse("suite_compare", args=[version.suite.name, version.number])
    return f"{page}?{query_string(by=by, first=first, second=key)}"


def _whisker(row: SuiteRow) -> dict[str, float] | None:
    """Return the positions of the score and the ends of its interval, in pixels."""
    if row.interval is None or row.score is None:
        return None
    ends = {"low": row.interval.low, "at": row.score, "high": row.interval.high}
    return {
        name: round(min(1.0, max(0.0, value)) * WHISKER_PIXELS, 1) for name, value in ends.items()
    }


def _csv(results: SuiteStandings) -> Iterator[str]:
    version, parts = results.version, ("score", "low", "high", "tasks", "attempts")
    labels = [f"{member.number} {member.label}" for member in results.members]
    heads = ["suite", "version", "sha256", results.by, "rank", *parts, "suite_tasks"]
    heads += ["failing_tasks", "is_provisional"]
    yield csv_line([*heads, *(f"{label} {part}" for label in labels for part in parts)])
    for row in results.rows:
        line = [version.suite.name, version.number, version.hash, row.key, row.rank]
        line += [row.score, *(row.interval or NO_INTERVAL), row.tasks, row.attempts, results.tasks]
        line += [results.failing, results.is_provisional]
        for member in row.members:
            line += [member.sums.mean, *(member.interval or NO_INTERVAL)]
            line += [member.sums.tasks, member.sums.attempts]
        yield csv_line(line)
