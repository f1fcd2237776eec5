"""The first page: what this server hosts, how to connect, what was played last."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass

from django.conf import settings
from django.db.models import Prefetch
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from environments.admin import with_size
from environments.models import Environment, Split
from episodes.models import Episode

LATEST_EPISODES = 10


@dataclass(frozen=True, slots=True)
class Client:
    """How one client connects, in three lines of its own language."""

    name: str
    note: str
    code: str


@require_safe
@never_cache
def home(request: HttpRequest) -> HttpResponse:
    served = with_size(Split.objects.filter(is_served=True).order_by("position", "name"))
    hosted = list(Environment.objects.filter(is_hosted=True).prefetch_related(Prefetch("splits", queryset=served)))
    latest = Episode.objects.select_related("environment", "split", "task", "run").defer("task__spec", "labels")
    context = {
        "hosted": hosted,
        "latest": list(latest.order_by("-pk")[:LATEST_EPISODES]),
        "url": request.build_absolute_uri("/").rstrip("/"),
        "clients": _clients(request.build_absolute_uri("/").rstrip("/"), hosted),
        "needs_key": bool(settings.ORSWEB_API_KEYS),
    }
    return render(request, "orsweb/home.html", context)


def _clients(url: str, hosted: list[Environment]) -> list[Client]:
    """Snippets that play the first task of the default environment."""
    name = hosted[0].name if hosted else "math"
    splits = list(hosted[0].splits.all()) if hosted else []
    split = splits[0].name if splits else "train"
    key = bool(settings.ORSWEB_API_KEYS)
    api_key = '"YOUR-KEY"' if key else '""'
    played = f"with env.session(split={json.dumps(split)}, index=0) as session: print(session.get_prompt())"
    header = "-H 'X-Session-ID: hello'" + (" -H 'X-API-Key: YOUR-KEY'" if key else "")
    task = shlex.quote(json.dumps({"env_name": name, "split": split, "index": 0}))
    return [
        Client(
            "ors-sdk",
            "pip install ors-sdk",
            f"from ors.client import ORS\n"
            f'env = ORS("{url}"{f", api_key={api_key}" if key else ""}).environment("{name}")\n{played}',
        ),
        Client(
            "openreward",
            f"pip install openreward, then set OPENREWARD_SESSION_URL and OPENREWARD_API_URL to {url}",
            f"from openreward import OpenReward\n"
            f'env = OpenReward(api_key={api_key}).environments.get("{name}")\n{played}',
        ),
        Client(
            "curl",
            "any text serves as a session id",
            f"curl {url}/create {header} --json {task}\n"
            f"curl {url}/{name}/prompt {header}\ncurl -X POST {url}/delete {header}",
        ),
    ]
