"""Who may see pages. Without keys the server is loopback-only and whoever reaches it is its operator; else, log in.

What keeps other people's web pages from acting as the operator: ALLOWED_HOSTS refuses names that were rebound to
loopback (CommonMiddleware asks for the host of every request), CsrfViewMiddleware refuses foreign origins, no answer
carries a CORS header, and the operator has no password and no session cookie that could outlive this configuration.
"""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from orsweb.exposure import is_loopback

Next = Callable[[HttpRequest], HttpResponse]
OPERATOR = "local operator"
"""The blank keeps it apart from every name that a form can give a user."""


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


def _operator() -> User:
    defaults = {"is_staff": True, "is_superuser": True, "password": make_password(None)}
    return User.objects.get_or_create(username=OPERATOR, defaults=defaults)[0]


class PagesNeedLoginMiddleware:
    """Strangers see the login page and nothing else. Only ORSWEB_API_KEYS makes strangers.

    The admin sends accounts that may not enter to its own login page, which would not tell them why. The API knows keys
    too and refuses with JSON (episodes/api/readers.py); the page that describes it is a page like others.
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
