"""Overview: what is happening now, what happened lately, what this server hosts, how to connect.

Two parts of it are fetched again as episodes happen (`?part=`), each by the same template as within the page.
"""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.db.models import Prefetch
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from environments.models import Environment, Split
from episodes.activity import SPANS, Span, fitting_span, lately
from episodes.dashboard.faults import refused
from episodes.models import Episode
from episodes.newest import READ_ENDINGS, ended, record_of, running, running_count

SHOWN_RUNNING = 8
SHOWN_EPISODES = 12
PARTS = ("now", "environments")


@require_safe
@never_cache
def overview(request: HttpRequest) -> HttpResponse:
    """`?span=` 1h, 24h or 30d; without it, the one that shows something."""
    span, part = _span(request.GET.get("span")), request.GET.get("part")
    if span is None:
        return _refused(request, "span", [span.name for span in SPANS])
    if part == "now":
        return render(request, "episodes/overview_now.html", _now(span))
    if part == "environments":
        return render(request, "episodes/overview_environments.html", _environments())
    if part is not None:
        return _refused(request, "part", PARTS)
    return render(request, "episodes/overview.html", _now(span) | _environments() | _connecting(request))


def _span(name: str | None) -> Span | None:
    """None: there is none of that name."""
    return fitting_span(time.time()) if name is None else next((span for span in SPANS if span.name == name), None)


def _refused(request: HttpRequest, field: str, legal: Any) -> HttpResponse:
    sentence = f"{field}={request.GET[field]!r} is not known; give one of: {', '.join(legal)}."
    return refused(request, "This address cannot be understood", sentence, [("/", "Overview")])


def _now(span: Span) -> dict[str, Any]:
    now = time.time()
    strip = lately(SPANS[1], now)
    live = running(SHOWN_RUNNING)
    count = running_count() if len(live) == SHOWN_RUNNING else len(live)
    part_url = "/?" + urlencode({"part": "now", "span": span.name})
    return {
        "strip": strip,
        "steps_trace": [bucket.steps for bucket in strip.buckets],
        "episodes_trace": [bucket.episodes for bucket in strip.buckets],
        "success_trace": [bucket.success for bucket in strip.buckets],
        "failures_trace": [bucket.failures for bucket in strip.buckets],
        "failures": sum(count for _, count in strip.failures),
        "shown": strip if span == strip.span else lately(span, now),
        "spans": SPANS,
        "playing": live + ended(SHOWN_EPISODES - len(live)),
        "running_count": count,
        "running_shown": len(live),
        "now_url": part_url,
        "part_url": part_url,
    }


def _environments() -> dict[str, Any]:
    served = Split.objects.filter(is_served=True).order_by("position", "name")
    hosted = Environment.objects.filter(is_hosted=True).prefetch_related(Prefetch("splits", queryset=served))
    rows = [(environment, record_of(environment)) for environment in hosted.defer("card", "task_schema")]
    url = "/?part=environments"
    return {"environments": rows, "read_endings": READ_ENDINGS, "environments_url": url, "part_url": url}


def _connecting(request: HttpRequest) -> dict[str, Any]:
    return {
        "is_empty": not Episode.objects.exists(),
        "url": request.build_absolute_uri("/").rstrip("/"),
        "needs_key": bool(settings.ORSWEB_API_KEYS),
    }
