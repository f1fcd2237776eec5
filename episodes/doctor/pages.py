"""The reward doctor's page: what its checks find in an environment, or in a split or run of it."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from environments.access.privacy import viewer_of
from environments.display.numbers import digits_of
from environments.filtering.addresses import takes
from environments.filtering.parameters import BadFilter, definition_in
from environments.scoring.definition import DEFINITION_PARAMETERS, definition_of
from episodes.dashboard.guards import environment_named, refused
from episodes.dashboard.view_parameters import definition_context
from episodes.doctor.findings import DoctorFinding
from episodes.doctor.report import DoctorReport, examine
from episodes.doctor.scope import MAX_EPISODES, DoctorScope, SampledAttempt
from episodes.doctor.thresholds import THRESHOLDS

MAX_NEIGHBOURS = 5
"""Attempts before and after the beginning of a problem that the page of a run shows."""
TITLES = {"problem": "Problems", "fine": "Passed", "too_little_data": "Not enough data"}


@require_safe
@never_cache
@takes("split", "run", *THRESHOLDS, *DEFINITION_PARAMETERS)
def doctor(request: HttpRequest, name: str) -> HttpResponse:
    """Return the doctor's report of an environment, of a split, or of its episodes in a run; of a
    run for htmx, as the part of the run's page. Raises: Http404."""
    environment = environment_named(request, name)
    try:
        definition = definition_of(environment, definition_in(request.GET))
        scope = DoctorScope.of(environment, request.GET, definition, viewer_of(request.user))
    except BadFilter as error:
        links = [(request.path, f"The reward doctor of {environment.name}")]
        return refused(request, "This address cannot be used", str(error), links)
    others = {key: text for key, text in request.GET.items() if key not in THRESHOLDS and text}
    report = examine(scope)
    if scope.run and "HX-Request" in request.headers:
        return render(request, "doctor/run_findings.html", _part_of_run(scope, report))
    context = {
        "environment": environment,
        "scope": scope,
        "report": report,
        "parts": [
            (title, result, findings)
            for result, title in TITLES.items()
            if (findings := [finding for finding in report.findings if finding.result == result])
        ],
        "splits": environment.splits.order_by("position", "name"),
        "thresholds": [
            (threshold, digits_of(scope.thresholds[name]), digits_of(threshold.default))
            for name, threshold in THRESHOLDS.items()
        ],
        "others": others,
        "defaults_query": urlencode(others),
        "max_episodes": MAX_EPISODES,
        **definition_context(definition, environment),
    }
    return render(request, "doctor/doctor.html", context)


class Beginning(NamedTuple):
    """A training step at which problems begin."""

    step: int
    findings: list[DoctorFinding]
    before: list[tuple[SampledAttempt, bool]]
    """The last MAX_NEIGHBOURS attempts before the step, each with whether it is a success; none
    where those that were read do not reach so far back."""
    after: list[tuple[SampledAttempt, bool]]


def _part_of_run(scope: DoctorScope, report: DoctorReport) -> dict[str, Any]:
    """Return the template variables of `doctor/run_findings.html`."""
    by_step = defaultdict[int, list[DoctorFinding]](list)
    for finding in report.problems:
        if finding.step is not None:
            by_step[finding.step].append(finding)
    in_order = sorted(
        (attempt for attempt in scope.attempts if attempt.run_step is not None),
        key=lambda attempt: (attempt.run_step, attempt.id),
    )
    attempts = [(attempt, attempt.is_success(scope.definition)) for attempt in in_order]
    beginnings = []
    for step, findings in sorted(by_step.items()):
        place = bisect_left(in_order, step, key=lambda attempt: attempt.run_step or 0)
        before = attempts[max(0, place - MAX_NEIGHBOURS) : place]
        after = attempts[place : place + MAX_NEIGHBOURS] if before else []
        beginnings.append(Beginning(step, findings, before, after))
    others = [finding for finding in report.problems if finding.step is None]
    return {
        "scope": scope,
        "report": report,
        "beginnings": beginnings,
        "others": others,
        "address": scope.address(),
    }
