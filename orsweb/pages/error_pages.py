"""The error pages: what happened, what is safe and what to do, in the frame of all pages.

Django calls these views as the handlers that `urls.py` names. Errors of the protocol are answered
there, in JSON. The views of the API answer their own errors in JSON too; those that happen before a
view is called are answered here.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass

from django.core.exceptions import DisallowedHost
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import NoReverseMatch, reverse

from environments import conf
from environments.access.permissions import SEE_PAGES, refusal
from orsweb.accounts.page_rules import missing_in_admin

NO_SUCH_PAGE = "There is no such page, or what it showed has been deleted."
_LINKED_PAGES = (
    ("overview", "Overview"),
    ("runs", "Runs"),
    ("episodes", "Episodes"),
    ("environments", "Environments"),
)


@dataclass(frozen=True, slots=True)
class Fault:
    status: int
    title: str
    sentence: str


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    sentence = str(exception) or "Its address is malformed."
    if isinstance(exception, DisallowedHost):
        sentence = (
            "This server does not answer under that host name. Add the name to "
            "ORSWEB_ALLOWED_HOSTS to allow it."
        )
    return fault_page(request, Fault(400, "This address isn't valid", sentence))


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    sentence = str(exception)
    if not sentence and (permission := missing_in_admin(request)):
        sentence = refusal(request.user, permission)
    elif not sentence:
        sentence = (
            "Your account may not do this. A superuser can change that, in the admin under Users."
        )
    return fault_page(request, Fault(403, "Not allowed", sentence))


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    sentence = (
        f"The form was sent from another site, or its page is too old: {reason} Reload the page "
        "and send it again."
    )
    return fault_page(request, Fault(403, "Form not sent", sentence))


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Show the message of the view that raised Http404, unless it is Django's own, which names
    classes and routes."""
    message = exception.args[0] if isinstance(exception, Http404) and exception.args else ""
    is_ours = isinstance(message, str) and message and " matches the given query" not in message
    return fault_page(request, Fault(404, "Page not found", message if is_ours else NO_SUCH_PAGE))


def server_error(request: HttpRequest) -> HttpResponse:
    """Return the page without a query, because the database may be what failed."""
    if _is_for_programs(request) and isinstance(
        sys.exc_info()[1], OperationalError | InterfaceError
    ):
        detail = "The database is unavailable; try again."
        return JsonResponse({"detail": detail}, status=503, headers={"Retry-After": "2"})
    sentence = (
        "This page failed; the reason is in the server's log. Nothing that was recorded is lost, "
        "and agents can continue to play. Reload the page. If it keeps failing, check that the "
        "database is reachable and migrated."
    )
    return fault_page(request, Fault(500, "Something went wrong", sentence), is_bare=True)


def _is_for_programs(request: HttpRequest) -> bool:
    """Return whether to answer in JSON: requests for the API, whose root is a page, unless they are
    a browser's, and those that want nothing else."""
    api, accept = f"{conf.path_prefix()}/api/", request.headers.get("Accept", "")
    if "text/html" in accept:
        return False
    return "json" in accept or (request.path.startswith(api) and request.path != api)


def fault_page(request: HttpRequest, fault: Fault, *, is_bare: bool = False) -> HttpResponse:
    """Return the page about a fault; JSON for programs."""
    if _is_for_programs(request):
        return JsonResponse({"detail": fault.sentence}, status=fault.status)
    links = list[tuple[str, str]]()
    # the parameters may have caused the error
    if fault.status == 400 and request.method in ("GET", "HEAD") and request.GET:
        links.append((request.path, "This page without parameters"))
    user = getattr(request, "user", None)
    if is_bare or user is None or user.has_perm(SEE_PAGES):
        for name, label in _LINKED_PAGES:
            with suppress(NoReverseMatch):
                links.append((reverse(name), label))
    context = {
        "title": fault.title,
        "sentence": fault.sentence,
        "status": fault.status,
        "links": links,
        "path": request.path,
        "is_bare": is_bare,
    }
    return render(request, "orsweb/error_page.html", context, status=fault.status)
