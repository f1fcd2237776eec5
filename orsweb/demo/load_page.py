"""The page that fills a server with demo data while it runs: a job plays the demo's script, and the
page shows its progress, then where to look and how to remove the data."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from environments.access.privacy import viewer_of
from environments.cluster.membership import DEMO, LOCKS
from environments.database import background_jobs
from environments.errors import OrsError
from environments.filtering.addresses import takes
from environments.filtering.parameters import chosen, given
from environments.service import ask_service
from episodes.figures.summary_cover import note_of_part
from episodes.models import Episode
from episodes.rollups.activity import ActivityPart
from episodes.rollups.run_totals import RunTotalsPart
from orsweb.demo.script import DAYS, SHARES
from orsweb.demo.script_runner import play_beside_others

EPISODES = 200
MAX_WAIT_SECONDS = 600.0
LOADING = threading.Lock()
"""Held while this process plays the demo."""
_SUBJECT = "demo"


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@takes("part")
def load_demo(request: HttpRequest) -> HttpResponse:
    """Return the page or, for `?part=state`, what changes on it; a POST starts the job.
    Raises: BadFilter."""
    job = _job()
    if request.method == "POST":
        if job is None or job.state != "running":
            background_jobs.start("Load demo data", _play, owner="", subject=_SUBJECT)
        return redirect("load_demo")
    part = given(request.GET, "part", chosen(("state",)))
    episodes = Episode.objects.seen_by(viewer_of(request.user)).filter(run__name__in=SHARES)
    is_loaded = episodes.exists()
    notes = map(note_of_part, (ActivityPart.name, RunTotalsPart.name)) if is_loaded else ()
    context = {
        "job": job,
        "episodes": EPISODES,
        "days": DAYS,
        "is_loaded": is_loaded,
        "note": next(filter(None, notes), ""),
    }
    return render(request, "orsweb/demo_state.html" if part else "orsweb/demo.html", context)


def _job() -> background_jobs.Job | None:
    """Return the job of this process that plays or played the demo: one that runs, else the
    newest."""
    all_jobs = [job for job in background_jobs.jobs() if job.subject == _SUBJECT]
    return min(all_jobs, key=lambda job: job.state != "running", default=None)


def _play(progress: background_jobs.Progress) -> str:
    """Play the demo. Raises: OrsError."""
    with _turn():
        if Episode.objects.filter(run__name__in=SHARES).exists():
            raise OrsError("There is demo data already.")
        try:
            ask_service(
                lambda service: play_beside_others(service, EPISODES, progress), MAX_WAIT_SECONDS
            )
        except TimeoutError:
            raise OrsError(
                f"The demo was not played within {MAX_WAIT_SECONDS:g} s; try again."
            ) from None
    return "Demo data is loaded."


@contextlib.contextmanager
def _turn() -> Iterator[None]:
    """Hold what one job of all servers of the database holds at a time. Raises: OrsError."""
    if not LOADING.acquire(blocking=False):
        raise OrsError("Demo data is being loaded already.")
    try:
        if connection.vendor == "postgresql":  # several servers may share it
            with connection.cursor() as cursor:
                # the lock goes with the job's connection
                cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", [LOCKS, DEMO])
                if not cursor.fetchone()[0]:
                    raise OrsError("Another server of this database is loading demo data.")
        yield
    finally:
        LOADING.release()
