"""Middleware that decides who may see the pages and websockets of this server.

Without API keys the server listens on loopback only, and everyone who reaches it acts as its
operator. With keys, people have to log in.

Foreign web pages cannot act as the operator: ALLOWED_HOSTS refuses names that were rebound to
loopback (CommonMiddleware checks the host of every request), CsrfViewMiddleware refuses foreign
origins, no response has a CORS header, and the operator has no password and no session cookie that
could outlive this configuration.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from channels.db import database_sync_to_async
from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.http.request import split_domain_port, validate_host
from django.urls import reverse

from environments import conf, security_log
from environments.access.local_operator import local_operator
from environments.access.permissions import refusal
from environments.conf import has_keys
from environments.features import url_of_page
from orsweb.accounts.page_rules import missing
from orsweb.server.exposure import is_loopback

Next = Callable[[HttpRequest], HttpResponse]


class LocalOperatorMiddleware:
    """Logs the local operator, a superuser, in for every request from this machine to a server
    without keys.

    `serve` and `runserver` listen on loopback only if there are no keys. The client's address is
    checked nevertheless, because the application may run under another server.
    """

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        is_local = is_loopback(request.META.get("REMOTE_ADDR", ""))
        if is_local and not has_keys() and not request.user.is_authenticated:
            request.user = local_operator()
        return self.get_response(request)


class LocalOperatorSockets:
    """LocalOperatorMiddleware for websockets; placed inside channels' AuthMiddlewareStack."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        host, _ = scope.get("client") or ("", 0)
        if is_loopback(host) and not has_keys() and not scope["user"].is_authenticated:
            scope = {**scope, "user": await database_sync_to_async(local_operator)()}
        await self._app(scope, receive, send)


class OwnPagesOnly:
    """Refuses websockets that no page of this server has opened: those with a foreign Host or
    another Origin.

    The ports have to match too, as in the CSRF check for pages, because servers on other ports of
    this machine get the same cookies.
    """

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1").lower()
        origin = urlsplit(headers.get(b"origin", b"").decode("latin-1").lower())
        is_own = bool(host) and origin.scheme in ("http", "https") and origin.netloc == host
        is_known = validate_host(split_domain_port(host)[0], settings.ALLOWED_HOSTS)
        if is_own and is_known:
            await self._app(scope, receive, send)
            return
        address, _ = scope.get("client") or ("", 0)
        address = conf.address_of(address, headers.get(b"x-forwarded-for", b"").decode("latin-1"))
        kind, what, detail = "host_refused", host, ""
        if is_known:
            kind, what = "request_refused", f"websocket {scope['path']}"
            detail = f"403 Opened by a page of {origin.netloc or 'no site'}"
        security_log.note(kind, what, who="", address=address, detail=detail)
        await WebsocketDenier()(scope, receive, send)


class ActorMiddleware:
    """Sets the visitor's name and address for what the security log notes of a request."""

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        guest = "" if request.user.is_authenticated else "guest"
        with security_log.acting(
            request.user.get_username() or guest, request.META.get("REMOTE_ADDR", "")
        ):
            return self.get_response(request)


class PagesNeedLoginMiddleware:
    """Shows people who are not logged in only the login page, and others the pages that they may
    see.

    Has an effect only on a server with keys: without, everybody is the operator. `page_rules.py`
    says which permission a page needs. Guests opened an invite and may see the player's pages,
    which check who they are (episodes/people/player_identity.py). The API also accepts keys and
    refuses with JSON (episodes/api/auth.py); the page that documents it needs a login like all
    others.
    """

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        api = reverse("api")
        is_login = request.path in (reverse("login"), *sign_on_paths())
        if is_login or (request.path.startswith(api) and request.path != api):
            return self.get_response(request)
        if request.user.is_authenticated:
            if permission := missing(request):
                raise PermissionDenied(refusal(request.user, permission))
            return self.get_response(request)
        play = url_of_page("play")
        is_guest = request.path.startswith(play) and "guest" in request.session
        if play and (is_guest or request.path.startswith(f"{play}invite/")):
            return self.get_response(request)
        # reload the page, or the login page would replace a part of it
        if request.headers.get("HX-Request"):
            return HttpResponse(status=401, headers={"HX-Refresh": "true"})
        # the page after the login is never the target of a form, nor the admin's own login page
        page = reverse("overview")
        if request.path == reverse("admin:login"):
            page = request.GET.get("next", reverse("admin:index"))
        elif request.method in ("GET", "HEAD"):
            page = request.get_full_path()
        return redirect_to_login(page)


def sign_on_paths() -> tuple[str, ...]:
    """Return the paths of single sign-on, which people open to log in; none if it is not
    configured."""
    return (reverse("sign_on"), reverse("sign_on_callback")) if settings.ORSWEB_OIDC_ISSUER else ()
