"""Entrance: where the link of an invite leads. It says what the invite is for, asks for a name, and seats a guest.

Open to strangers, so it shows nothing but that. Its address is a secret: no page that it leads to is told of it.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from episodes.plays import Invite
from episodes.playtest.invites.rule import LONGEST_NAME, Unwelcome, admit, welcome
from episodes.playtest.seat import GUEST_KEY, seat_of

REFERRER = "strict-origin"
"""Pages that are asked for from here are told the server's name alone. `no-referrer` would make the form's Origin null,
which the check against forgery refuses."""


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def invite(request: HttpRequest, token: str) -> HttpResponse:
    try:
        found = welcome(token)
    except Unwelcome as refusal:
        answer = render(request, "playtest/invite_over.html", {"sentence": refusal}, status=refusal.status)
    else:
        answer = _answer(request, found)
    answer.headers["Referrer-Policy"] = REFERRER
    return answer


@require_POST
def leave(request: HttpRequest) -> HttpResponse:
    """The browser is nobody's guest any more; its episodes stay."""
    request.session.pop(GUEST_KEY, None)
    return redirect("play") if request.user.is_authenticated else render(request, "playtest/invite_left.html")


def _answer(request: HttpRequest, found: Invite) -> HttpResponse:
    seat = seat_of(request)
    if seat is not None and seat.invite is not None and seat.invite.pk == found.pk:
        return redirect(_chooser(found))
    if seat is not None and seat.guest is None and settings.ORSWEB_API_KEYS:  # an account; it plays as itself
        return redirect(_chooser(found))
    if request.method != "POST":
        return _page(request, found)
    try:
        guest = admit(found, request.POST.get("name", ""))
    except ValueError as error:
        return _page(request, found, {"error": str(error), "name": request.POST.get("name", "")}, status=422)
    request.session.cycle_key()
    request.session[GUEST_KEY] = guest.pk
    return redirect(_chooser(found))


def _page(request: HttpRequest, found: Invite, more: dict[str, Any] | None = None, status: int = 200) -> HttpResponse:
    context = {
        "invite": found,
        "longest": LONGEST_NAME,
        "is_tried_out": not settings.ORSWEB_API_KEYS,
        **(more or {}),
    }
    return render(request, "playtest/invite.html", context, status=status)


def _chooser(found: Invite) -> str:
    wish = {"environment": found.environment.name} | ({"split": found.split.name} if found.split else {})
    return f"{reverse('play')}?{urlencode(wish)}"
