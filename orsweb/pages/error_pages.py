"""What pages answer when something is wrong: in the frame, with what happened, what is safe and what to do.

Driven by Django's handlers, which `urls.py` names. What goes wrong in the protocol is answered there, in JSON.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.core.exceptions import DisallowedHost
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import NoReverseMatch, reverse

NOWHERE = "There is no such page, or what it was about has been deleted."
_PLACES = (("overview", "Overview"), ("episodes", "All episodes"), ("environments", "Environments"))


@dataclass(frozen=True, slots=True)
class Fault:
    status: int
    title: str
    sentence: str


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    sentence = str(exception) or "Its address is malformed."
    if isinstance(exception, DisallowedHost):
        sentence = (
            "This server does not answer under that name. Set ORSWEB_ALLOWED_HOSTS to the names that it may have."
        )
    return _page(request, Fault(400, "This request cannot be understood", sentence))


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    sentence = str(exception) or "Your account may not see this. A superuser can change that, in the admin under Users."
    return _page(request, Fault(403, "Not allowed", sentence))


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    sentence = (
        f"The form was sent from another site, or its page is too old: {reason} Load the page again and resend it."
    )
    return _page(request, Fault(403, "Not sent", sentence))


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """The words of the view that raised Http404, where it gave any; Django's own name classes and routes."""
    said = exception.args[0] if isinstance(exception, Http404) and exception.args else ""
    is_ours = isinstance(said, str) and said and " matches the given query" not in said
    return _page(request, Fault(404, "Nothing here", said if is_ours else NOWHERE))


def server_error(request: HttpRequest) -> HttpResponse:
    """Asks nothing of the database, for that may be what is away."""
    sentence = (
        "This page failed; the reason stands in the server's log. Nothing that was recorded is lost, and agents can go "
        "on playing. Load the page again; if it keeps failing, see whether the database can be reached and is migrated."
    )
    return _page(request, Fault(500, "Something broke", sentence), is_bare=True)


def _page(request: HttpRequest, fault: Fault, *, is_bare: bool = False) -> HttpResponse:
    context = {
        "title": fault.title,
        "sentence": fault.sentence,
        "status": fault.status,
        "links": [*_bare_links(request, fault), *_links()],
        "path": request.path,
        "is_bare": is_bare,
    }
    return render(request, "orsweb/error_page.html", context, status=fault.status)


def _bare_links(request: HttpRequest, fault: Fault) -> list[tuple[str, str]]:
    """A link to the page without its parameters, where these may be what could not be understood."""
    is_of_parameters = fault.status == 400 and request.method in ("GET", "HEAD") and request.GET
    return [(request.path, "This page without parameters")] if is_of_parameters else []


def _links() -> list[tuple[str, str]]:
    found = []
    for name, label in _PLACES:
        try:
            found.append((reverse(name), label))
        except NoReverseMatch:
            continue
    return found
