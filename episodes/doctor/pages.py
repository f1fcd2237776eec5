"""The reward doctor's page: what its checks find in an environment, or in a split or run of it."""

from __future__ import annotations

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
from episodes.doctor.report import examine
from episodes.doctor.scope import MAX_EPISODES, DoctorScope
from episodes.doctor.thresholds import THRESHOLDS

TITLES = {"problem": "Problems", "fine": "Passed", "too_little_data": "Too little data"}


@require_safe
@never_cache
@takes("split", "run", *THRESHOLDS, *DEFINITION_PARAMETERS)
def doctor(request: HttpRequest, name: str) -> HttpResponse:
    """Return the doctor's report of an environment, of a split, or of its episodes in a run.
    Raises: Http404."""
    environment = environment_named(request, name)
    try:
        definition = definition_of(environment, definition_in(request.GET))
        scope = DoctorScope.of(environment, request.GET, definition, viewer_of(request.user))
    except BadFilter as error:
        links = [(request.path, f"The reward doctor of {environment.name}")]
        return refused(request, "This address cannot be used", str(error), links)
    others = {key: text for key, text in request.GET.items() if key not in THRESHOLDS and text}
    report = examine(scope)
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
