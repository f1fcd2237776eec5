"""The page of those who run the server, where links for guests are made, watched and taken back.

Entrance: where the link of an invite leads. It says what the invite is for, asks for a name, and seats a guest.

Open to strangers, so it shows nothing but that. Its address is a secret: no page that it leads to is told of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Prefetch, Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from environments.models import Environment, Split
from episodes.filtering.people import label_of
from episodes.models import Guest, Invite
from episodes.playtest.invites.rule import LONGEST_NAME, State, Unwelcome, admit, revoke, state_of, welcome, write
from episodes.playtest.seat import GUEST_KEY, for_people, seat_of

REFERRER = "strict-origin"
"""Pages that are asked for from here are told the server's name alone. `no-referrer` would make the form's Origin null,
which the check against forgery refuses."""


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def invite(request: HttpRequest, token: str) -> HttpResponse:
    try:
        found = welcome(token)
    except Unwelcome as refusal:
        answer = render(request, "playtest/invite_closed.html", {"sentence": refusal}, status=refusal.status)
    else:
        answer = _answer(request, found)
    answer.headers["Referrer-Policy"] = REFERRER
    return answer


@require_POST
def leave(request: HttpRequest) -> HttpResponse:
    """The browser is nobody's guest any more; its episodes stay."""
    request.session.pop(GUEST_KEY, None)
    return redirect("play") if request.user.is_authenticated else render(request, "playtest/invite_goodbye.html")


def _answer(request: HttpRequest, found: Invite) -> HttpResponse:
    seat = seat_of(request)
    if seat is not None and seat.invite is not None and seat.invite.pk == found.pk:
        return redirect(_chooser(found))
    if seat is not None and seat.guest is None and settings.ORSWEB_API_KEYS:  # an account; it plays as itself
        return redirect(_chooser(found))
    if request.method != "POST":
        return _invite_page(request, found)
    try:
        guest = admit(found, request.POST.get("name", ""))
    except ValueError as error:
        return _invite_page(request, found, {"error": str(error), "name": request.POST.get("name", "")}, status=422)
    request.session.cycle_key()
    request.session[GUEST_KEY] = guest.pk
    return redirect(_chooser(found))


def _invite_page(
    request: HttpRequest, found: Invite, more: dict[str, Any] | None = None, status: int = 200
) -> HttpResponse:
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


UNITS = {"hours": timedelta(hours=1), "days": timedelta(days=1)}
LONGEST_DAYS = 365
PERMISSION = "episodes.add_invite"
MAX_SHOWN = 200
"""Invites, the newest."""


@dataclass(frozen=True, slots=True)
class Visitor:
    name: str
    label: str
    """Under which its episodes stand."""
    played: int
    """Episodes that were more than opened."""


@dataclass(frozen=True, slots=True)
class InviteLine:
    invite: Invite
    state: State
    guests: Sequence[Visitor]
    played: int
    """By all of them."""


class InviteForm(forms.Form):
    """`place` is the id of an environment, or that and a split's: "3" or "3/7"."""

    place = forms.ChoiceField(label="For")
    name = forms.CharField(max_length=100, label="Whom or what it is for")
    lasts = forms.IntegerField(min_value=1, initial=7, label="Expires in")
    unit = forms.ChoiceField(choices=[(unit, unit) for unit in UNITS], initial="days", label="Unit")
    is_blind = forms.BooleanField(required=False, label="Blind")

    def __init__(self, data: Any = None, *, initial: dict[str, Any] | None = None) -> None:
        super().__init__(data, initial=initial)
        self.fields["place"].choices = list(_places())  # type: ignore[attr-defined]  # a ChoiceField's
        self.fields["place"].error_messages["invalid_choice"] = "This is no environment or split here; choose another."

    def clean(self) -> dict[str, Any] | None:
        given = super().clean() or {}
        if "lasts" in given and "unit" in given and given["lasts"] > timedelta(LONGEST_DAYS) / UNITS[given["unit"]]:
            self.add_error("lasts", f"An invite lasts {LONGEST_DAYS} days at most; give a smaller number.")
        return given

    def invite(self, author: str) -> tuple[Invite, str]:
        """The new one, and the secret of its link. After `is_valid`."""
        given = self.cleaned_data
        environment, _, split = given["place"].partition("/")
        found = Invite(name=given["name"], is_blind=given["is_blind"], author=author[:150])
        found.environment_id, found.split_id = int(environment), int(split) if split else None
        return found, write(found, given["lasts"] * UNITS[given["unit"]])


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@for_people
def invites(request: HttpRequest) -> HttpResponse:
    """Making one answers with the page itself, for the link is shown once and kept nowhere.

    Raises: PermissionDenied.
    """
    _check(request)
    if request.method != "POST":
        return _invites_page(
            request, InviteForm(initial={"place": request.GET.get("place", ""), "lasts": 7, "unit": "days"})
        )
    form = InviteForm(request.POST)
    if not form.is_valid():
        return _invites_page(request, form, status=422)
    made, token = form.invite(request.user.get_username())
    link = request.build_absolute_uri(reverse("invite", args=[token]))
    return _invites_page(request, InviteForm(), {"made": made, "link": link}, status=201)


@require_POST
@for_people
def revoke_invite(request: HttpRequest, pk: int) -> HttpResponse:
    """Raises: PermissionDenied; Http404."""
    _check(request)
    if revoke(pk) is None:
        raise Http404(f"There is no invite {pk}. The list holds those that were made.")
    return redirect("invites")


def _check(request: HttpRequest) -> None:
    """Whoever makes an invite lets strangers in, which is a permission of its own, as curating is."""
    if not request.user.has_perm(PERMISSION):
        raise PermissionDenied(
            f"Invites are for accounts with the permission “Can add invite”, which {request.user.get_username()} does "
            "not have. A superuser can give it, in the admin under Users."
        )


def _invites_page(
    request: HttpRequest, form: InviteForm, more: dict[str, Any] | None = None, status: int = 200
) -> HttpResponse:
    context = {
        "form": form,
        "lines": list(_lines()),
        "has_keys": bool(settings.ORSWEB_API_KEYS),
        "has_hosts": bool(settings.ORSWEB_ALLOWED_HOSTS),
        **(more or {}),
    }
    return render(request, "playtest/invites.html", context, status=status)


def _places() -> Iterator[tuple[str, Any]]:
    """Environments with their served splits, as groups of options."""
    served = Split.objects.filter(is_served=True).order_by("position", "name")
    rows = Environment.objects.filter(is_hosted=True).only("name", "position")
    for environment in rows.prefetch_related(Prefetch("splits", queryset=served)):
        whole = (f"{environment.pk}", f"{environment.name}: every split")
        splits = [
            (f"{environment.pk}/{one.pk}", f"{environment.name} / {one.name}") for one in environment.splits.all()
        ]
        yield environment.name, [whole, *splits]


def _lines() -> Iterator[InviteLine]:
    """Three queries."""
    played = Count("plays", filter=Q(plays__episode__is_probe=False))
    guests = Guest.objects.annotate(played=played).order_by("pk")
    rows = Invite.objects.select_related("environment", "split").prefetch_related(Prefetch("guests", queryset=guests))
    for invite in rows[:MAX_SHOWN]:
        found = [Visitor(guest.name, label_of(guest), guest.played) for guest in invite.guests.all()]  # type: ignore[attr-defined]
        yield InviteLine(invite, state_of(invite), found, sum(guest.played for guest in found))
