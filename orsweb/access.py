"""Who may see pages. Without keys the server is loopback-only and whoever reaches it is its operator; with keys, log in."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

Next = Callable[[HttpRequest], HttpResponse]
OPERATOR = "operator"


class LocalOperatorMiddleware:
    """Without ORSWEB_API_KEYS every request to a page is the local operator's: a superuser without a password."""

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not settings.ORSWEB_API_KEYS and not request.user.is_authenticated:
            user, created = get_user_model().objects.get_or_create(
                username=OPERATOR, defaults={"is_staff": True, "is_superuser": True}
            )
            if created:
                user.set_unusable_password()
                user.save(update_fields=["password"])
            request.user = user
        return self.get_response(request)


class PagesNeedLoginMiddleware:
    """With ORSWEB_API_KEYS nothing but the login page is shown to strangers."""

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.user.is_authenticated or request.path.startswith("/admin/"):
            return self.get_response(request)
        return redirect_to_login(request.get_full_path(), reverse("admin:login"))
