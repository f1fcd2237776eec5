"""Who may see pages. Without keys the server is loopback-only and whoever reaches it is its operator; else, log in.

What keeps other people's web pages from acting as the operator: ALLOWED_HOSTS refuses names that were rebound to
loopback (CommonMiddleware asks for the host of every request), CsrfViewMiddleware refuses foreign origins, no answer
carries a CORS header, and the operator has no password and no session cookie that could outlive this configuration.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from channels.db import database_sync_to_async
from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.http.request import split_domain_port, validate_host
from django.urls import reverse

from environments.conf import OPERATOR
from orsweb.server.exposure import is_loopback

Next = Callable[[HttpRequest], HttpResponse]


class LocalOperatorMiddleware:
    """Without ORSWEB_API_KEYS every request from this machine is the local operator's: a superuser without a password.

    No server of ours listens elsewhere without keys; the client's address is asked all the same, for other servers.
    """

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        is_local = is_loopback(request.META.get("REMOTE_ADDR", ""))
        if is_local and not settings.ORSWEB_API_KEYS and not request.user.is_authenticated:
            request.user = _operator()
        return self.get_response(request)


class LocalOperatorSockets:
    """As LocalOperatorMiddleware, around the handlers of websockets; inside of channels' AuthMiddlewareStack."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        host, _ = scope.get("client") or ("", 0)
        if is_loopback(host) and not settings.ORSWEB_API_KEYS and not scope["user"].is_authenticated:
            scope = {**scope, "user": await database_sync_to_async(_operator)()}
        await self._app(scope, receive, send)


class OwnPagesOnly:
    """Refuses websockets that no page of this server asks for: by a foreign Host, or from another Origin than it.

    As the CSRF check does for pages, it tells ports apart: another server on this machine has the same cookies.
    """

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1").lower()
        origin = urlsplit(headers.get(b"origin", b"").decode("latin-1").lower())
        is_own = bool(host) and origin.scheme in ("http", "https") and origin.netloc == host
        is_known = validate_host(split_domain_port(host)[0], settings.ALLOWED_HOSTS)
        await (self._app if is_own and is_known else WebsocketDenier())(scope, receive, send)


def _operator() -> User:
    defaults = {"is_staff": True, "is_superuser": True, "password": make_password(None)}
    return User.objects.get_or_create(username=OPERATOR, defaults=defaults)[0]


class PagesNeedLoginMiddleware:
    """Strangers see the login page and nothing else. Only ORSWEB_API_KEYS makes strangers.

    Guests came by an invite and get to the player's pages, which look who they are (episodes/playtest/seat.py).
    The admin sends accounts that may not enter to its own login page, which would not tell them why. The API knows keys
    too and refuses with JSON (episodes/api/auth.py); the page that describes it is a page like others.
    """

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        api = reverse("api")
        asks_itself = request.path == reverse("login") or (request.path.startswith(api) and request.path != api)
        if asks_itself:
            return self.get_response(request)
        if request.user.is_authenticated:
            _check_admin(request)
            return self.get_response(request)
        if _is_for_guests(request):
            return self.get_response(request)
        if request.headers.get("HX-Request"):  # part of a page, in which a login page would stand; it is loaded anew
            return HttpResponse(status=401, headers={"HX-Refresh": "true"})
        return redirect_to_login(_asked_for(request))


def _check_admin(request: HttpRequest) -> None:
    """Raises: PermissionDenied for an account that the admin has sent to its login."""
    if request.path == reverse("admin:login") and not request.user.is_staff:
        raise PermissionDenied(
            f"The admin is for accounts with staff status, which {request.user.get_username()} does not have. A "
            "superuser can give it, in the admin under Users; or log out and log in as somebody else."
        )


def _asked_for(request: HttpRequest) -> str:
    """What to show after the login: no answer to a form, and not the admin's own login page."""
    if request.path == reverse("admin:login"):
        return request.GET.get("next", reverse("admin:index"))
    return request.get_full_path() if request.method in ("GET", "HEAD") else reverse("overview")


def _is_for_guests(request: HttpRequest) -> bool:
    """The link of an invite, which strangers open; and to guests the player's pages."""
    play = reverse("play")
    return request.path.startswith(f"{play}invite/") or (request.path.startswith(play) and "guest" in request.session)
