"""Four of Django's middleware classes, changed. Named in settings.MIDDLEWARE.

The first three run on the event loop. Static files are served there, so the middleware before them
runs there too. None of these classes waits for anything, but Django would switch to a thread and
back for each of them; the six switches cost a third of a short page.
"""

from __future__ import annotations

from typing import Any

from csp.middleware import CSPMiddleware
from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.http import Http404, HttpRequest, HttpResponse, HttpResponsePermanentRedirect
from django.http.response import HttpResponseBase
from django.middleware.common import CommonMiddleware
from django.middleware.gzip import GZipMiddleware
from django.middleware.security import SecurityMiddleware

from environments import conf, security_log
from environments.agents.http.errors import NUL_IS_NOWHERE


class _OnTheLoop:
    get_response: Any

    async def __acall__(self, request: Any) -> Any:
        own_response = self.process_request(request) if hasattr(self, "process_request") else None
        response = own_response or await self.get_response(request)
        return self.process_response(request, response)  # type: ignore[attr-defined]  # all three classes have it


class Security(_OnTheLoop, SecurityMiddleware):
    """Adds security headers, and keeps cookies that were set over TLS from being sent without
    it."""

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        if request.is_secure():
            for cookie in response.cookies.values():
                cookie["secure"] = True
        return super().process_response(request, response)


class ContentPolicy(_OnTheLoop, CSPMiddleware):
    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        if request.path_info.startswith(f"{conf.path_prefix()}/admin/"):
            response._csp_update = settings.ADMIN_CONTENT_SECURITY_POLICY  # type: ignore[attr-defined]  # read by csp
        return super().process_response(request, response)


class Common(_OnTheLoop, CommonMiddleware):
    """Refuses foreign Hosts, also for static files, and finds nothing at addresses with NUL.

    No stored text has NUL, and PostgreSQL refuses a statement with it; so no view and no filter has
    to think of it.
    """

    def process_request(self, request: HttpRequest) -> HttpResponsePermanentRedirect | None:
        try:
            redirect = super().process_request(request)
        except DisallowedHost:
            address = str(request.META.get("REMOTE_ADDR", ""))
            security_log.note(
                "host_refused", str(request.META.get("HTTP_HOST", "")), who="", address=address
            )
            raise
        if "\0" in request.path or "%00" in request.META["QUERY_STRING"]:
            raise Http404(NUL_IS_NOWHERE)
        return redirect


class CompressedPages(GZipMiddleware):
    """Compresses pages, the parts of pages that scripts load, and JSON.

    Not what has an ETag: If-Match compares bytes, so Django would weaken it (RFC 9110, 8.8.3).

    From the length of a compressed page, somebody who can put text into it could guess its secrets
    (BREACH). Django therefore adds up to 100 random bytes and masks CSRF tokens anew on each page,
    and other sites can't load a page with the cookies of a visitor (SameSite).
    """

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        kind = response.headers.get("Content-Type", "")
        is_text = kind.startswith(("text/html", "application/json"))
        # a compressor would delay events
        if response.streaming or not is_text or response.has_header("ETag"):
            return response
        return super().process_response(request, response)
