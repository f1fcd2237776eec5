"""The button of an empty server that fills its pages: plays the demo's script while the server
runs."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from environments.filtering.addresses import takes
from environments.service import ask_service
from episodes.models import Episode
from orsweb.demo.script_runner import NothingToPlay, play_beside_others
from orsweb.pages.error_pages import Fault, fault_page

EPISODES = 200
MAX_WAIT_SECONDS = 120.0


@require_POST
@takes()
def load_demo(request: HttpRequest) -> HttpResponse:
    """Play the demo, unless there are episodes already, and return to the overview."""
    if not Episode.objects.exists():
        try:
            ask_service(lambda service: play_beside_others(service, EPISODES), MAX_WAIT_SECONDS)
        except NothingToPlay as error:
            return fault_page(request, Fault(409, "No demo data", str(error)))
    return redirect("overview")
