"""Overview: what is happening now, what this server hosts, how to connect."""

from __future__ import annotations

from django.conf import settings
from django.db.models import Prefetch
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from environments.models import Environment, Split
from episodes.models import Episode

LATEST_EPISODES = 10


@require_safe
@never_cache
def overview(request: HttpRequest) -> HttpResponse:
    served = Split.objects.filter(is_served=True).order_by("position", "name")
    hosted = list(Environment.objects.filter(is_hosted=True).prefetch_related(Prefetch("splits", queryset=served)))
    latest = Episode.objects.select_related("environment", "split", "task", "run").defer("task__spec", "labels")
    context = {
        "rows": hosted,
        "latest": list(latest.order_by("-pk")[:LATEST_EPISODES]),
        "url": request.build_absolute_uri("/").rstrip("/"),
        "needs_key": bool(settings.ORSWEB_API_KEYS),
    }
    return render(request, "episodes/overview.html", context)
