"""Seat: who plays. An account, or a guest who came by an invite; for views and for the socket alike.

The runtime knows a session's owner as a string, which the record keeps as the episode's `key_label`: `@<username>`, or
`@<name> (guest <pk>)`. No label of a key begins with "@" (`orsweb/env.py`) and no username has a bracket, so the
protocol never reaches a player's session, and one player never another's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from django.contrib.auth import SESSION_KEY, get_user
from django.contrib.auth.views import redirect_to_login
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from episodes.filtering.people import label_of
from episodes.models import Guest, Invite, Play
from episodes.playtest.invites.rule import is_open_to

GUEST_KEY = "guest"
"""Of a browser's session: the id of the Guest that it is."""
OVER = "Your invite is over. What you played is on record; whoever invited you can make another link."
LOGGED_OUT = "You are logged out. Log in again to go on; the episode waits until its session expires."

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class PlayerSeat:
    """Either `user_id` or `guest` is there; `invite` is the guest's, open when it was asked for."""

    owner: str
    name: str
    user_id: int | None = None
    guest: Guest | None = None
    invite: Invite | None = None

    @property
    def author(self) -> str:
        """With which notes and flags are signed; nobody else has the same."""
        return self.owner.removeprefix("@")

    @property
    def plays(self) -> Q:
        """Condition of a query for its plays."""
        return Q(guest=self.guest) if self.guest else Q(user=self.user_id, guest=None)

    def holds(self, play: Play) -> bool:
        if self.guest is not None:
            return play.guest_id == self.guest.pk
        return play.guest_id is None and play.user_id is not None and play.user_id == self.user_id

    def may_play(self, environment: str, split: str) -> bool:
        """Whether its invite, if it needs one, is for that."""
        if self.invite is None:
            return True
        only = self.invite.split
        return environment == self.invite.environment.name and (only is None or split == only.name)


def seat_of(request: HttpRequest) -> PlayerSeat | None:
    """Whose request it is; None: a stranger's, or of a guest whose invite is over."""
    return _seat(request.user, request.session)


def seat_of_scope(scope: Mapping[str, Any]) -> PlayerSeat | None:
    """As `seat_of`, of a websocket behind channels' AuthMiddlewareStack. Asks the database."""
    return _seat(scope["user"], scope["session"])


def can_be_shut_out(scope: Mapping[str, Any]) -> bool:
    """Whether whoever opened that websocket may stop being welcome. The local operator may not."""
    return SESSION_KEY in scope["session"] or GUEST_KEY in scope["session"]


def may_go_on(scope: Mapping[str, Any]) -> bool:
    """Whether whoever opened that websocket is who it was then: a guest whose invite is open, an account that is logged
    in, or the local operator. Asks the database."""
    session = scope["session"]
    if SESSION_KEY in session:
        request = HttpRequest()
        request.session = session.__class__(session.session_key)  # as it is now, not as it was read at the start
        return get_user(request).is_authenticated
    return GUEST_KEY not in session or is_open_to(session[GUEST_KEY])


def seated(view: Callable[Concatenate[HttpRequest, PlayerSeat, P], HttpResponse]) -> Callable[..., HttpResponse]:
    """`view` with its visitor's seat; strangers are sent to the login, and guests told that their invite is over."""

    @wraps(view)
    def wrapped(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        seat = seat_of(request)
        if seat is not None:
            return view(request, seat, *args, **kwargs)
        if GUEST_KEY in request.session:
            return render(request, "playtest/invite_closed.html", {"sentence": OVER}, status=410)
        return redirect_to_login(request.get_full_path())

    return wrapped


def for_people(view: Callable[Concatenate[HttpRequest, P], HttpResponse]) -> Callable[..., HttpResponse]:
    """`view` for accounts alone: guests, whom the middleware lets through to the player's pages, may not see it."""

    @wraps(view)
    def wrapped(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        if request.user.is_authenticated:
            return view(request, *args, **kwargs)
        return redirect_to_login(request.get_full_path())

    return wrapped


def _seat(user: Any, session: Any) -> PlayerSeat | None:
    # without keys everybody is somebody (orsweb/accounts/access.py), but whoever came by an invite has to stay its guest
    if SESSION_KEY not in session and (pk := session.get(GUEST_KEY)) is not None:
        guest = _guest(pk)
        if guest is not None:
            return PlayerSeat(label_of(guest), guest.name, guest=guest, invite=guest.invite)
    if not user.is_authenticated:
        return None
    return PlayerSeat(f"@{user.get_username()}", user.get_username(), user_id=user.pk)


def _guest(pk: Any) -> Guest | None:
    related = Guest.objects.select_related("invite__environment", "invite__split")
    return related.filter(pk=pk, invite__revoked=None, invite__expires__gt=timezone.now()).first()
