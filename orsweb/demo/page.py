"""The button of an empty server that fills its pages: plays the demo's script while the server
runs."""

from __future__ import annotations

import threading

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from environments.errors import Draining, NotPlaying
from environments.filtering.addresses import takes
from environments.service import ask_service
from episodes.models import Episode
from orsweb.demo.script_runner import NothingToPlay, play_beside_others
from orsweb.pages.error_pages import Fault, fault_page

EPISODES = 200
MAX_WAIT_SECONDS = 120.0
LOADING = threading.Lock()
"""Held from the question whether there are episodes until they are played, which is once."""


@require_POST
@takes()
def load_demo(request: HttpRequest) -> HttpResponse:
    """Play the demo, unless there are episodes already, and return to the overview."""
    if not LOADING.acquire(blocking=False):
        sentence = "Demo data is being loaded, which takes about half a minute."
        return fault_page(request, Fault(409, "Loading demo data", sentence))
    try:
        if not Episode.objects.exists():
            ask_service(lambda service: play_beside_others(service, EPISODES), MAX_WAIT_SECONDS)
    except NothingToPlay as error:
        return fault_page(request, Fault(409, "No demo data", str(error)))
    except (NotPlaying, Draining) as error:
        return fault_page(request, Fault(503, "No demo data", str(error)))
    except TimeoutError:
        sentence = f"The demo was not played within {MAX_WAIT_SECONDS:g} s; try again."
        return fault_page(request, Fault(503, "No demo data", sentence))
    finally:
        LOADING.release()
    return redirect("overview")
