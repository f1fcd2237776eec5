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

    The admin's own views ask for a login themselves, and say so when the account may not enter. The API knows
    keys too and refuses with JSON (episodes/api/readers.py); the page that describes it is a page like others.
    """

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        api = reverse("api")
        asks_itself = request.path.startswith((reverse("admin:index"), api)) and request.path != api
        if request.user.is_authenticated or asks_itself:
            return self.get_response(request)
        return redirect_to_login(request.get_full_path(), reverse("admin:login"))
