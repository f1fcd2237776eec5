"""The overview: running episodes, recent activity, the hosted environments and how to connect.

Two parts of the page are fetched again as episodes start and end (`?part=`), with the templates of
the whole page.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import urlencode

from django.core.exceptions import BadRequest
from django.db.models import Prefetch
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from environments import conf
from environments.access.privacy import viewer_of
from environments.display import parts
from environments.filtering.addresses import takes
from environments.filtering.parameters import definition_in
from environments.models import Environment, Split, Viewer
from environments.scoring.definition import (
    DEFINITION_PARAMETERS,
    DefinitionAsked,
    definitions_in_force,
)
from environments.service import service_or_none
from episodes.analytics.activity import ActivityPoint, Span, activity, together
from episodes.analytics.overview import environment_figures
from episodes.analytics.summary_cover import note_of_part
from episodes.attempts.rule import FAILURES
from episodes.browsing.episode_list import summaries
from episodes.browsing.running_episodes import ended, running, running_count
from episodes.dashboard.client_examples import example_call
from episodes.dashboard.shared_parts import shared_part
from episodes.dashboard.view_parameters import asked_context
from episodes.filtering.names import name_tasks
from episodes.models import Episode
from episodes.rollups.activity import ActivityPart
from episodes.visibility import blind_to, sight_of

SHOWN_RUNNING = 8
SHOWN_EPISODES = 12
MIN_SPAN_EPISODES = 10
"""Number of episodes from which on a span is shown by default."""
SPANS: Mapping[Span, str] = {
    "1h": "the last hour",
    "24h": "the last 24 hours",
    "30d": "the last 30 days",
}
PARTS = ("now", "environments")
LEGAL: Mapping[str, Collection[str]] = {"span": SPANS, "part": PARTS}


@require_safe
@never_cache
@takes(*LEGAL, *DEFINITION_PARAMETERS)
def overview(request: HttpRequest) -> HttpResponse:
    """Return the page or one part of it.

    `span` is 1h, 24h or 30d; without it the page picks a span that shows something. The parameters
    of a definition replace parts of those of the environments. Raises: BadRequest.
    """
    for field, legal in LEGAL.items():
        if (given := request.GET.get(field)) and given not in legal:
            raise BadRequest(
                f"{field}={given[:80]!r} is not allowed; give one of: {', '.join(legal)}."
            )
    span, viewer = cast(Span | None, request.GET.get("span") or None), viewer_of(request.user)
    asked = definition_in(request.GET)
    part = request.GET.get("part")
    if part == "now":
        return shared_part(
            request,
            "episodes/overview_activity.html",
            sight_of(request.user),
            lambda: _now(request.user, span, asked),
        )
    if part == "environments":
        return shared_part(
            request,
            "episodes/overview_environments.html",
            viewer,
            lambda: _environments(asked, viewer),
        )
    context = _now(request.user, span, asked) | _environments(asked, viewer)
    context |= _connecting(request, viewer, context["environments"])
    return render(request, "episodes/overview.html", context)


def _now(user: Any, given: Span | None, asked: DefinitionAsked) -> dict[str, Any]:
    now, viewer = time.time(), viewer_of(user)
    in_force = definitions_in_force(asked)
    lately: dict[Span, Sequence[ActivityPoint]] = {
        span: activity(span, viewer, now=now, definitions=in_force) for span in SPANS
    }
    span = given or _default_span(lately)
    live = running(SHOWN_RUNNING, viewer, asked.return_, list(blind_to(user)))
    playing = live + ended(SHOWN_EPISODES - len(live), viewer, asked.return_)
    name_tasks(line.episode for line in playing)
    tasks = summaries(line.episode for line in playing)
    chosen = asked.values()
    part_url = reverse("overview") + "?" + urlencode({"part": "now", "span": span, **chosen})
    return {
        **_strip(lately["24h"]),
        "running_count": running_count(viewer) if len(live) == SHOWN_RUNNING else len(live),
        "running_shown": len(live),
        "playing": [(line, tasks[line.episode.pk]) for line in playing],
        **asked_context(asked),
        "span": span,
        "spans": SPANS,
        "words": SPANS[span],
        "points": lately[span],
        "shown": together(lately[span]),
        "activity_note": note_of_part(ActivityPart.name),
        "since": datetime.fromtimestamp(lately[span][0].start, UTC),
        "page_url": f"?{urlencode(chosen)}&" if chosen else "?",
        "now_url": part_url,
        "part_url": part_url,
    }


def _default_span(lately: Mapping[Span, Sequence[ActivityPoint]]) -> Span:
    """Return the shortest span with MIN_SPAN_EPISODES episodes or more; else the day."""
    fitting = (
        span for span in SPANS if sum(point.episodes for point in lately[span]) >= MIN_SPAN_EPISODES
    )
    return next(fitting, "24h")


def _strip(hours: Sequence[ActivityPoint]) -> dict[str, Any]:
    day = together(hours)
    failures = [(cause, count) for cause, count in day.causes.items() if cause in FAILURES]
    return {
        "day": day,
        "failures": sorted(failures, key=lambda failure: -failure[1]),
        "failures_count": day.failures,
        "traces": {
            name: [getattr(hour, name) for hour in hours]
            for name in ("episodes", "steps", "success", "failures")
        },
    }


def _environments(asked: DefinitionAsked, viewer: Viewer) -> dict[str, Any]:
    served = Split.objects.filter(is_served=True).order_by("position", "name")
    hosted = (
        Environment.objects.seen_by(viewer)
        .filter(is_hosted=True)
        .prefetch_related(Prefetch("splits", queryset=served))
    )
    found = environment_figures(list(hosted.defer("card", "task_schema")), viewer, asked)
    rows = [
        {
            "environment": figures.environment,
            "definition": figures.definition,
            "total": figures.outline.total,
            "missing": figures.outline.missing,
            "trace": figures.outline.means,
        }
        for figures in found
    ]
    url = reverse("overview") + "?" + urlencode({"part": "environments"} | asked.values())
    return {
        "environments": rows,
        "missing": next((one["missing"] for one in rows if one["missing"]), ""),
        "environments_url": url,
        "part_url": url,
        **asked_context(asked),
    }


def _connecting(
    request: HttpRequest, viewer: Viewer, shown: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return the variables of the examples, which play the first of the `shown` environments."""
    service = service_or_none()
    first = service.registry.find(shown[0]["environment"].name) if service and shown else None
    return {
        "call": example_call(parts.tools(first.tools_json))
        if first and first.is_described
        else None,
        "is_empty": not Episode.objects.seen_by(viewer).exists(),
        "url": request.build_absolute_uri(reverse("overview")).rstrip("/"),
        "origin": request.build_absolute_uri("/").rstrip("/"),
        "needs_key": conf.has_keys(),
    }
