"""The page that an invite's link opens, where strangers become guests, and the list where accounts
manage invites.

An invite's page says only what the invite is for and asks for a name, because it is open to
strangers. Its address is a secret that no other page learns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.db.models import Count, Prefetch, Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from environments import conf, security_log
from environments.access.privacy import viewer_of
from environments.filtering.addresses import takes
from environments.filtering.parameters import BadFilter
from environments.models import Environment, Split, Viewer
from environments.models.viewer import visible_environments
from episodes.models import Guest, Invite
from episodes.people.invites.rule import (
    MAX_NAME_CHARACTERS,
    InviteRefused,
    State,
    add_guest,
    invite_of,
    person_name,
    personal_guest,
    refuse_unless_open,
    revoke,
    save_invite,
    shows_end,
    state_of,
)
from episodes.people.player_identity import GUEST_KEY, PlayerSeat, for_accounts, guest_of, seat_of
from episodes.people.questions import question

REFERRER_POLICY = "strict-origin"
"""Requests from the page tell only the server's name. `no-referrer` would make the form's Origin
null, which the CSRF check of Django refuses.
"""
UNITS = {"hours": timedelta(hours=1), "days": timedelta(days=1)}
MAX_INVITE_DAYS = 365
MAX_SHOWN = 200
"""Maximum number of invites that are listed: the newest ones."""


# --- the page of an invite, for strangers ---------------------------------------------------------


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def invite(request: HttpRequest, token: str) -> HttpResponse:
    """Return the page of the invite whose secret is `token`. A POST with a `name` makes the browser
    its guest."""
    try:
        row = invite_of(token)
        guest = _guest_at_end(request, row)
        if guest is None:
            refuse_unless_open(row)
    except InviteRefused as refusal:
        security_log.note("login_failed", "invite", detail=str(refusal))
        answer = refusal_page(request, refusal)
    else:
        answer = _answer(request, row) if guest is None else _enter(request, row, guest)
    answer.headers["Referrer-Policy"] = REFERRER_POLICY
    return answer


def refusal_page(request: HttpRequest, refusal: InviteRefused) -> HttpResponse:
    context = {"sentence": refusal, "title": refusal.title}
    return render(request, "people/invite_closed.html", context, status=refusal.status)


@require_POST
@takes()
def leave(request: HttpRequest) -> HttpResponse:
    """End being a guest in this browser. The guest's episodes stay."""
    guest = guest_of(request.session)
    request.session.pop(GUEST_KEY, None)
    if request.user.is_authenticated:
        return redirect("play")
    context = {"is_of_study": guest is not None and guest.invite.study is not None}
    return render(request, "people/invite_goodbye.html", context)


def _guest_at_end(request: HttpRequest, invite: Invite) -> Guest | None:
    """Return who may see the end of a study by a link that is not open any more: the guest of a
    personal link, or of this browser; None if there is none, or if the link is open.
    """
    if state_of(invite) == "open" or not shows_end(invite) or SESSION_KEY in request.session:
        return None
    if invite.is_personal:
        return Guest.objects.filter(invite=invite).first()
    guest = guest_of(request.session)
    return guest if guest is not None and guest.invite == invite else None


def _answer(request: HttpRequest, invite: Invite) -> HttpResponse:
    seat = seat_of(request)
    if seat is not None and seat.invite is not None and seat.invite.pk == invite.pk:
        return redirect(_chooser(invite))
    if seat is not None and seat.guest is None and conf.has_keys():  # it plays under its own name
        return _for_account(request, invite, seat)
    if invite.is_personal:
        return _enter(request, invite, personal_guest(invite))
    if request.method != "POST":
        return _form_with_id(request, invite)
    try:
        guest = add_guest(invite, request.POST.get("name", ""))
    except ValueError as error:
        return _invite_page(
            request, invite, {"error": str(error), "name": request.POST.get("name", "")}, status=422
        )
    return _enter(request, invite, guest)


def _form_with_id(request: HttpRequest, invite: Invite) -> HttpResponse:
    """Return the form, with the `id` of the address filled in. Recruiting sites and mails add other
    parameters."""
    ids = dict.fromkeys(request.GET.getlist("id"))
    try:
        if len(ids) > 1:
            raise ValueError(
                f"This link has more than one ID: {', '.join(ids)}. Enter the one that is yours."
            )
        return _invite_page(request, invite, {"name": "".join(map(person_name, ids))})
    except ValueError as error:
        return _invite_page(request, invite, {"error": str(error)}, status=422)


def _enter(request: HttpRequest, invite: Invite, guest: Guest) -> HttpResponse:
    """Make the browser that of the guest."""
    security_log.note("login", f"invite {invite.name}", who=f"guest {guest.name}")
    request.session.cycle_key()
    request.session[GUEST_KEY] = guest.pk
    return redirect(_chooser(invite))


def _for_account(request: HttpRequest, invite: Invite, seat: PlayerSeat) -> HttpResponse:
    """Let somebody who is logged in play what the invite is for. In a study they would not be a
    guest."""
    if invite.study_id is None:
        return redirect(_chooser(invite))
    sentence = (
        f"You're logged in as {seat.name}, but studies are for guests. Open this link in a private "
        "window."
    )
    return render(request, "people/invite_closed.html", {"sentence": sentence}, status=409)


def _invite_page(
    request: HttpRequest, invite: Invite, more: dict[str, Any] | None = None, status: int = 200
) -> HttpResponse:
    context = {
        "invite": invite,
        "longest": MAX_NAME_CHARACTERS,
        "is_tried_out": not conf.has_keys(),
        **(more or {}),
    }
    return render(request, "people/invite.html", context, status=status)


def _chooser(invite: Invite) -> str:
    if invite.study_id is not None:
        return reverse("study_home")
    choice = {"environment": invite.environment.name} | (
        {"split": invite.split.name} if invite.split else {}
    )
    return f"{reverse('play')}?{urlencode(choice)}"


# --- the list of invites, for accounts ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InviteLine:
    """An invite in the list of invites."""

    invite: Invite
    state: State
    guests: Sequence[Guest]
    """Each with its number of `episodes` with a tool call."""
    episodes: int
    """Number of episodes with a tool call of all guests together."""


class InviteForm(forms.Form):
    """The form of a new invite. `place` is the id of an environment, or ids of environment and
    split: "3" or "3/7"."""

    place = forms.ChoiceField(label="For")
    name = forms.CharField(max_length=100, label="Name of the invite")
    lasts = forms.IntegerField(min_value=1, initial=7, label="Expires in")
    unit = forms.ChoiceField(choices=[(unit, unit) for unit in UNITS], initial="days", label="Unit")
    is_blind = forms.BooleanField(required=False, label="Blind")

    def __init__(
        self, viewer: Viewer, data: Any = None, *, initial: dict[str, Any] | None = None
    ) -> None:
        super().__init__(data, initial=initial)
        self.fields["place"].choices = list(_places(viewer))  # type: ignore[attr-defined]  # it is a ChoiceField
        self.fields["place"].error_messages["invalid_choice"] = (
            "This choice doesn't exist. Choose another one."
        )

    def clean(self) -> dict[str, Any] | None:
        values = super().clean() or {}
        if (
            "lasts" in values
            and "unit" in values
            and values["lasts"] > timedelta(MAX_INVITE_DAYS) / UNITS[values["unit"]]
        ):
            self.add_error(
                "lasts",
                f"An invite can last at most {MAX_INVITE_DAYS} days. Enter a smaller number.",
            )
        return values

    def invite(self, author: str) -> tuple[Invite, str]:
        """Save the new invite; return it and the secret of its link. Call `is_valid` first."""
        values = self.cleaned_data
        environment, _, split = values["place"].partition("/")
        invite = Invite(name=values["name"], is_blind=values["is_blind"], author=author[:150])
        invite.environment_id, invite.split_id = int(environment), int(split) if split else None
        return invite, save_invite(invite, values["lasts"] * UNITS[values["unit"]])


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@for_accounts
@takes("place")
def invites(request: HttpRequest) -> HttpResponse:
    """Return the list of invites. A POST makes one and returns the page itself, as its link is
    shown only once."""
    viewer = viewer_of(request.user)
    if request.method != "POST":
        initial = {"place": request.GET.get("place", ""), "lasts": 7, "unit": "days"}
        if initial["place"] and initial["place"] not in {
            key for _, places in _places(viewer) for key, _ in places
        }:
            raise BadFilter(
                "place", str(initial["place"]), "the form offers no such environment or split"
            )
        return _invites_page(request, InviteForm(viewer, initial=initial))
    form = InviteForm(viewer, request.POST)
    if not form.is_valid():
        return _invites_page(request, form, status=422)
    new_invite, token = form.invite(request.user.get_username())
    link = request.build_absolute_uri(reverse("invite", args=[token]))
    return _invites_page(
        request, InviteForm(viewer), {"made": new_invite, "link": link}, status=201
    )


@require_POST
@for_accounts
@takes()
def revoke_invite(request: HttpRequest, pk: int) -> HttpResponse:
    """End an invite, after a question. Raises: Http404."""
    invite = Invite.objects.filter(visible_environments(viewer_of(request.user)), pk=pk).first()
    if invite is None:
        raise Http404(f"There is no invite {pk}. The Invites page lists all of them.")
    if asking := question_to_revoke(request, invite, reverse("invites")):
        return asking
    revoke(pk, request)
    return redirect("invites")


def question_to_revoke(request: HttpRequest, invite: Invite, back: str) -> HttpResponse | None:
    """Return the page that asks whether to revoke a link; None if the form has the answer."""
    sentence = "The link stops working, and tasks in progress end. What was played is kept."
    return question(request, f"Revoke “{invite.name}”?", sentence, "Revoke for good", back)


def _invites_page(
    request: HttpRequest, form: InviteForm, more: dict[str, Any] | None = None, status: int = 200
) -> HttpResponse:
    context = {
        "form": form,
        "lines": list(_lines(viewer_of(request.user))),
        "has_keys": conf.has_keys(),
        "has_hosts": bool(settings.ORSWEB_ALLOWED_HOSTS),
        **(more or {}),
    }
    return render(request, "people/invites.html", context, status=status)


def _places(viewer: Viewer) -> Iterator[tuple[str, Any]]:
    """Yield the groups of options: environments with their served splits, whose tasks the person
    may read."""
    sealed_environments = set(viewer.sealed_splits.values())
    splits_served = (
        Split.objects.seen_by(viewer).filter(is_served=True).order_by("position", "name")
    )
    rows = Environment.objects.seen_by(viewer).filter(is_hosted=True).only("name", "position")
    for environment in rows.prefetch_related(Prefetch("splits", queryset=splits_served)):
        whole = (
            []
            if environment.pk in sealed_environments
            else [(f"{environment.pk}", f"{environment.name}: every split")]
        )
        splits = [
            (f"{environment.pk}/{split.pk}", f"{environment.name} / {split.name}")
            for split in environment.splits.all()
        ]
        yield environment.name, [*whole, *splits]


def _lines(viewer: Viewer) -> Iterator[InviteLine]:
    """Yield the lines of the newest MAX_SHOWN invites. Three queries."""
    with_call = Count("plays", filter=Q(plays__episode__is_probe=False))
    guests = Guest.objects.annotate(episodes=with_call).order_by("pk")
    rows = Invite.objects.filter(visible_environments(viewer), study=None)
    rows = rows.select_related("environment", "split")
    for invite in rows.prefetch_related(Prefetch("guests", queryset=guests))[:MAX_SHOWN]:
        people: list[Any] = list(invite.guests.all())
        episodes = sum(guest.episodes for guest in people)
        yield InviteLine(invite, state_of(invite), people, episodes)
