"""The answers to logins that are not checked: too many wrong passwords, or too many passwords at
once.

django-axes counts wrong passwords by account and by address and calls `locked_out` (the settings
AXES_…). `password_hashing.py` raises HashingBusy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from axes.attempts import get_cool_off_threshold
from axes.models import AccessAttempt
from django.conf import settings
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from environments.command_line import command
from orsweb.accounts.password_hashing import RETRY_AFTER_SECONDS, HashingBusy
from orsweb.pages.error_pages import Fault, fault_page

BUSY = Fault(
    503,
    "Try again in a moment",
    "Too many people are logging in. Your password wasn't checked; go back and send it again in a "
    "moment.",
)


class BusyHashingMiddleware:
    """Shows a page with `Retry-After` if too many passwords are being checked."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if isinstance(error, HashingBusy):
            return _later(request, BUSY, RETRY_AFTER_SECONDS)
        return None


def address_of(request: HttpRequest) -> str:
    """Return the visitor's address, which the server has taken from a trusted proxy's header if
    there is one."""
    return str(request.META.get("REMOTE_ADDR", ""))


def locked_out(
    request: HttpRequest, original: Any, credentials: Mapping[str, Any] | None = None
) -> HttpResponse:
    """Return the page that says how long the lock lasts. django-axes calls it with or without
    `original`."""
    name = str((credentials or {}).get("username") or request.POST.get("username", ""))
    is_concerned = Q(username=name) | Q(ip_address=address_of(request))
    attempts = AccessAttempt.objects.filter(
        is_concerned, attempt_time__gte=get_cool_off_threshold(request)
    )
    times = attempts.order_by("-attempt_time").values_list("attempt_time", flat=True)
    end = (times.first() or timezone.now()) + settings.AXES_COOLOFF_TIME
    seconds = max(1, round((end - timezone.now()).total_seconds()))
    minutes = max(1, round(seconds / 60))
    sentence = (
        "There were too many wrong passwords for this account or from your address. You can log in "
        f"again in {minutes} minute{'' if minutes == 1 else 's'}; until then no password is "
        f"checked. The operator of this server can end the lock at once with "
        f"{command('axes_reset')}."
    )
    return _later(request, Fault(429, "Too many attempts to log in", sentence), seconds)


def _later(request: HttpRequest, fault: Fault, wait_seconds: int) -> HttpResponse:
    response = fault_page(request, fault)
    response["Retry-After"] = str(wait_seconds)
    return response
