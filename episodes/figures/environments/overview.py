"""The overview: running episodes, recent activity, environments and how to connect.

Two parts of the page are fetched again as episodes start and end (`?part=`), with the templates of
the whole page.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any
from urllib.parse import urlencode

from django.db.models import Prefetch
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from environments import conf
from environments.access.privacy import viewer_of
from environments.filtering.addresses import takes
from environments.filtering.parameters import chosen, definition_in, given
from environments.models import Environment, Split, Viewer
from environments.scoring.definition import (
    DEFINITION_PARAMETERS,
    DefinitionOverrides,
    definitions_in_force,
)
from episodes.attempts.rule import FAILURES
from episodes.browsing.running_episodes import ended, running, running_count
from episodes.browsing.task_lines import name_tasks, task_lines
from episodes.dashboard.live_parts import shared_part
from episodes.dashboard.view_parameters import overrides_context
from episodes.figures.activity import ActivityPoint, Span, activity, together
from episodes.figures.environments.client_examples import example_call, tools_of
from episodes.figures.environments.environment_figures import environment_figures
from episodes.figures.environments.failing_tasks import failing_tasks
from episodes.figures.environments.split_figures import default_splits
from episodes.figures.run_verdicts import recent_verdicts
from episodes.figures.summary_cover import uncounted_by
from episodes.models import Episode
from episodes.rollups.activity import ActivityPart
from episodes.visibility import blind_to, sight_of

MAX_RUNNING = 8
MAX_EPISODES = 12
MAX_FIRST_EPISODES = 10
"""Episodes of a server that is in use, whoever played them."""
MIN_SPAN_EPISODES = 10
"""Number of episodes from which on a span is shown by default."""
SPANS: Mapping[Span, str] = {
    "1h": "the last hour",
    "24h": "the last 24 hours",
    "30d": "the last 30 days",
}


@require_safe
@never_cache
@takes("span", "part", *DEFINITION_PARAMETERS)
def overview(request: HttpRequest) -> HttpResponse:
    """Return the page or one part of it.

    `span` is 1h, 24h or 30d; without it the page picks a span that shows something. The parameters
    of a definition replace parts of those of the environments. Raises: BadFilter.
    """
    span: Span | None = given(request.GET, "span", chosen(tuple(SPANS)))
    part = given(request.GET, "part", chosen(("now", "environments")))
    overrides, viewer = definition_in(request.GET), viewer_of(request.user)
    if part == "now":
        return shared_part(
            request,
            "figures/overview_activity.html",
            sight_of(request.user),
            lambda: _now(request.user, span, overrides),
        )
    if part == "environments":
        return shared_part(
            request,
            "figures/overview_environments.html",
            viewer,
            lambda: _environments(overrides, viewer),
        )
    context = _now(request.user, span, overrides) | _environments(overrides, viewer)
    rows = context["environments"]
    context |= {
        "call": example_call(tools_of(rows[0]["environment"])) if rows else None,
        "failing": failing_tasks(viewer),
        "verdicts": recent_verdicts(overrides, viewer),
        **_first_steps(viewer),
        "url": request.build_absolute_uri(reverse("overview")).rstrip("/"),
        "origin": request.build_absolute_uri("/").rstrip("/"),
        "needs_key": conf.has_keys(),
    }
    return render(request, "figures/overview.html", context)


def _first_steps(viewer: Viewer) -> dict[str, Any]:
    """Return whether nothing was played yet, and whether only people have tried the server."""
    first = Episode.objects.seen_by(viewer).order_by("pk")[:MAX_FIRST_EPISODES]
    players = list(first.values_list("player", flat=True))
    is_new = len(players) < MAX_FIRST_EPISODES and all(player == "human" for player in players)
    return {"is_empty": not players, "is_new": is_new}


def _now(user: Any, choice: Span | None, overrides: DefinitionOverrides) -> dict[str, Any]:
    """Return the template variables of what is played, and of the activity in the span of
    `choice`; None: the shortest one with MIN_SPAN_EPISODES episodes or more, else the day."""
    now, viewer, definitions = time.time(), viewer_of(user), definitions_in_force(overrides)

    @cache
    def points(name: Span) -> Sequence[ActivityPoint]:
        return activity(name, viewer, now=now, definitions=definitions)

    busy = (name for name in SPANS if together(points(name)).episodes >= MIN_SPAN_EPISODES)
    span: Span = next(busy, "24h") if choice is None else choice
    live = running(MAX_RUNNING, viewer, overrides.return_, list(blind_to(user)))
    lines = live + ended(MAX_EPISODES - len(live), viewer, overrides.return_)
    name_tasks(line.episode for line in lines)
    tasks = task_lines(line.episode for line in lines)
    day, query = together(points("24h")), overrides.values()
    failures = [(cause, count) for cause, count in day.causes.items() if cause in FAILURES]
    part_url = reverse("overview") + "?" + urlencode({"part": "now", "span": span, **query})
    return {
        "day": day,
        "failures": sorted(failures, key=lambda failure: -failure[1]),
        "failures_count": day.failures,
        "traces": {
            name: [getattr(hour, name) for hour in points("24h")]
            for name in ("episodes", "steps", "failures")
        },
        "running_count": running_count(viewer) if len(live) == MAX_RUNNING else len(live),
        "running_shown": len(live),
        "playing": [(line, tasks[line.episode.pk]) for line in lines],
        **overrides_context(overrides),
        "span": span,
        "spans": SPANS,
        "words": SPANS[span],
        "points": points(span),
        "shown": together(points(span)),
        "uncounted": uncounted_by(ActivityPart.name),
        "since": datetime.fromtimestamp(points(span)[0].start, UTC),
        "page_url": f"?{urlencode(query)}&" if query else "?",
        "now_url": part_url,
        "part_url": part_url,
    }


def _environments(overrides: DefinitionOverrides, viewer: Viewer) -> dict[str, Any]:
    splits = Split.objects.filter(is_served=True).order_by("position", "name")
    environments = Environment.objects.seen_by(viewer).order_by("-is_hosted", "position")
    environments = environments.prefetch_related(Prefetch("splits", queryset=splits))
    hosted = list(environments.defer("card", "task_schema"))
    split_by_environment = default_splits([environment.pk for environment in hosted])
    lines = environment_figures(hosted, viewer, overrides, split_by_environment)
    rows = [
        {
            "environment": figures.environment,
            "definition": figures.definition,
            "total": figures.outline.total,
            "missing": figures.outline.missing,
            "trace": figures.outline.means,
            "split": figures.split,
            "query": figures.query,
        }
        for figures in lines
        if figures.environment.is_hosted or figures.outline.total
    ]
    url = reverse("overview") + "?" + urlencode({"part": "environments"} | overrides.values())
    return {
        "environments": rows,
        "missing": next((row["missing"] for row in rows if row["missing"]), ""),
        "environments_url": url,
        "part_url": url,
        **overrides_context(overrides),
    }
