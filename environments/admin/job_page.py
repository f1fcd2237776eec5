"""The page of a job, which shows the progress of long work. It polls; closing it does not stop the
job.

A job runs on the server that started it. Beside other servers of the database its address names
that server, and whichever server gets the request passes it on.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.template.response import TemplateResponse
from django.urls import reverse

from environments.access.privacy import viewer_of
from environments.admin.base import author_of
from environments.database import background_jobs
from environments.database.storable import id_in
from environments.filtering.addresses import flag_asked
from environments.service import ownership_or_none

SERVER = "server"
"""Parameter of addresses, whose value is the id of a server."""


def job_url(job: str, back: str = "") -> str:
    """Return the address of the job's page. `back`: path of the page to return to."""
    path = reverse("admin:environments_task_job", args=[job])
    parameters: dict[str, str | int] = dict(this_server())
    if back:
        parameters = {"back": back, **parameters}
    return f"{path}?{urlencode(parameters)}" if parameters else path


def this_server() -> dict[str, int]:
    """Return the parameter by which an address names this server; empty if it has its database
    alone."""
    ownership = ownership_or_none()
    return {} if ownership is None else {SERVER: ownership.membership.id}


def from_its_server(request: HttpRequest) -> HttpResponse | None:
    """Fetch the page from the server named in the URL; None if that is this server or it is
    gone."""
    ownership, number = ownership_or_none(), id_in(request.GET.get(SERVER, ""))
    return None if ownership is None or number is None else ownership.page_from(number, request)


def jobs_shown_to(request: HttpRequest) -> list[background_jobs.Job]:
    """Return the jobs that the person may see, newest first: only their own if something is hidden
    from them.

    Titles and results of others may be about that.
    """
    rows = background_jobs.jobs()
    if viewer_of(request.user).hides_anything:
        rows = [job for job in rows if job.owner == author_of(request)]
    return rows


def job_view(request: HttpRequest, job_id: str, context: dict[str, Any]) -> HttpResponse:
    """Return the page of a job; with ?state=1 only its numbers, for the page's script. A POST asks
    the job to stop."""
    if (elsewhere := from_its_server(request)) is not None:
        return elsewhere
    job = next((job for job in jobs_shown_to(request) if job.id == job_id), None)
    if job is None:
        raise Http404(
            f"There is no job {job_id!r}: jobs are forgotten after an hour and when the "
            "server restarts."
        )
    if request.method == "POST":
        if not request.user.has_perm("environments.change_task"):
            raise PermissionDenied
        job.cancel()
        return HttpResponseRedirect(request.get_full_path())
    if flag_asked(request, "state"):
        return JsonResponse(
            {"state": job.state, "done": job.done, "total": job.total, "progress": job.progress}
        )
    back = request.GET.get("back", "")
    if not back.startswith(reverse("admin:index")):
        back = reverse("admin:environments_task_changelist")
    variables = {"title": job.title, "job": job, "back": back, "link": split_link(job.result)}
    return TemplateResponse(request, "environments/job.html", {**context, **variables})


def split_link(result: object) -> tuple[str, str] | None:
    """Return (address, text) of a link to the split that an action made or filled."""
    split = getattr(result, "split", None)
    if not isinstance(split, int):
        return None
    return reverse("admin:environments_split_change", args=[split]), "Open the split"
