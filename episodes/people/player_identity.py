"""The person who plays: an account, or a guest with an invite. Used by the player's views and by
its socket.

For the runtime, a session's owner is a string, which is recorded as the episode's `key_label`:
`@<username>`, or `@<name> (guest <pk>)`. No label of a key starts with "@" (`orsweb/env.py`) and no
username contains a bracket. So no agent can reach a player's session, and no player can reach
another's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from django.contrib.auth import SESSION_KEY
from django.contrib.auth.views import redirect_to_login
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from environments.access.current_login import logged_in
from environments.access.permissions import PLAY, SEE_HIDDEN, refusal
from environments.access.privacy import viewer_of
from environments.models import UNRESTRICTED, Viewer
from environments.models.viewer import visible_environments
from episodes.models import Episode, Guest, Invite, Play, Study
from episodes.models.privacy import outside_seals
from episodes.people.invites.rule import STUDY_CLOSED, is_open_to, state_of

GUEST_KEY = "guest"
"""Key of a browser's session under which the id of its Guest is stored."""
INVITE_OVER = (
    "Your invite has ended. Your episodes are saved. Ask the person who invited you for a new link."
)
STUDY_OVER = f"{STUDY_CLOSED}. What you did is saved. Thank you for taking part."
NOW_PRIVATE = "This environment is private now, and your account is not one of its members."
NOW_SEALED = "The tasks of this split are sealed now, and your account may not read them."
LOGGED_OUT = (
    "You're logged out. Log in again to continue; the episode waits until its session expires."
)

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class PlayerSeat:
    """The person who plays: an account (`user_id`), or a `guest` with an `invite`, which was open
    when it was read."""

    owner: str
    name: str
    viewer: Viewer
    """What exists for the person; everything for a guest, who sees only what the invite is for."""
    user_id: int | None = None
    guest: Guest | None = None
    invite: Invite | None = None
    reads_hidden: bool = False
    """Whether the person may see hidden fields of tasks."""

    @property
    def author(self) -> str:
        """Unique name with which notes and flags are signed."""
        return self.owner.removeprefix("@")

    @property
    def study(self) -> Study | None:
        """The study that the guest takes part in."""
        return self.invite.study if self.invite is not None else None

    @property
    def plays(self) -> Q:
        """Condition of a query for the person's plays."""
        if self.guest is not None:
            return Q(guest=self.guest)
        own = Q(user=self.user_id, guest=None) & visible_environments(
            self.viewer, "episode__environment"
        )
        return own & outside_seals(self.viewer, "episode__")

    def holds(self, play: Play) -> bool:
        """Return whether the person plays or played `play`, a task that exists for them. A query if
        some are sealed."""
        if self.guest is not None:
            return play.guest_id == self.guest.pk
        if not self.viewer.sees_environment(play.episode.environment_id):
            return False
        is_own = play.guest_id is None and play.user_id is not None and play.user_id == self.user_id
        return is_own and _is_unsealed(self.viewer, play.pk)

    def may_play(self, environment: str, split: str) -> bool:
        """Return whether the person may play that split. Guests may play what their invite is
        for."""
        if self.invite is None:
            return True
        only = self.invite.split
        return environment == self.invite.environment.name and (only is None or split == only.name)


def guest_of(session: Any) -> Guest | None:
    """Return the guest of a browser's session, whose invite may be over; None for an account."""
    if SESSION_KEY in session or (pk := session.get(GUEST_KEY)) is None:
        return None
    rows = Guest.objects.select_related("invite__environment", "invite__split", "invite__study")
    return rows.filter(pk=pk).first()


def seat_for(guest: Guest) -> PlayerSeat:
    return PlayerSeat(guest.label, guest.name, UNRESTRICTED, guest=guest, invite=guest.invite)


def seat_of(request: HttpRequest) -> PlayerSeat | None:
    """Return the person who sent the request; None for a stranger and for a guest whose invite has
    ended."""
    return _seat(request.user, request.session)


def seat_of_scope(scope: Mapping[str, Any]) -> PlayerSeat | None:
    """Return the person who opened a websocket behind channels' AuthMiddlewareStack, or None as
    `seat_of` does.

    Makes queries.
    """
    return _seat(scope["user"], scope["session"])


def can_lose_access(scope: Mapping[str, Any]) -> bool:
    """Return whether the person who opened that websocket can lose access. All people except the
    local operator can."""
    return SESSION_KEY in scope["session"] or GUEST_KEY in scope["session"]


def access_problem(scope: Mapping[str, Any], episode: Episode | None = None) -> str:
    """Return why the person who opened that websocket may not play any longer; empty if they may.
    Makes queries.

    A guest's invite has to be open, an account logged in and permitted to play, and the environment
    and task of the episode must exist for it. The local operator always may.
    """
    session = scope["session"]
    if SESSION_KEY not in session:
        return (
            _why_over(session[GUEST_KEY])
            if GUEST_KEY in session and not is_open_to(session[GUEST_KEY])
            else ""
        )
    user = logged_in(session)  # session and account in the scope are from the start of the socket
    if not user.is_authenticated:
        return LOGGED_OUT
    if not user.has_perm(PLAY):
        return refusal(user, PLAY)
    viewer = viewer_of(user)
    if episode is None:
        return ""
    if not viewer.sees_environment(episode.environment_id):
        return NOW_PRIVATE
    return "" if _is_unsealed(viewer, episode.pk) else NOW_SEALED


def seated(
    view: Callable[Concatenate[HttpRequest, PlayerSeat, P], HttpResponse],
) -> Callable[..., HttpResponse]:
    """Wrap `view` with the visitor's seat. Strangers are sent to the login; guests of an ended
    invite get a page."""

    @wraps(view)
    def wrapped(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        seat = seat_of(request)
        if seat is not None:
            return view(request, seat, *args, **kwargs)
        if GUEST_KEY in request.session:
            sentence, guest = _why_over(request.session[GUEST_KEY]), guest_of(request.session)
            context = {
                "sentence": sentence.removeprefix(f"{STUDY_CLOSED}. "),
                "title": STUDY_CLOSED if sentence == STUDY_OVER else "Your invite has ended",
                "seat": None if guest is None else seat_for(guest),
            }
            return render(request, "people/invite_closed.html", context, status=410)
        return redirect_to_login(request.get_full_path())

    return wrapped


def for_accounts(
    view: Callable[Concatenate[HttpRequest, P], HttpResponse],
) -> Callable[..., HttpResponse]:
    """Wrap `view` so that only accounts may see it.

    The middleware lets guests through to the player's pages; this refuses them.
    """

    @wraps(view)
    def wrapped(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        if request.user.is_authenticated:
            return view(request, *args, **kwargs)
        return redirect_to_login(request.get_full_path())

    return wrapped


def _seat(user: Any, session: Any) -> PlayerSeat | None:
    # without keys every visitor is the local operator (orsweb/accounts/access.py), but a guest
    # stays one until *Leave*
    if (guest := guest_of(session)) is not None:
        return seat_for(guest) if state_of(guest.invite) == "open" else None
    if not user.is_authenticated:
        return None
    return PlayerSeat(
        f"@{user.get_username()}",
        user.get_username(),
        user_id=user.pk,
        viewer=viewer_of(user),
        reads_hidden=user.has_perm(SEE_HIDDEN),
    )


def _is_unsealed(viewer: Viewer, episode: int) -> bool:
    """Return whether the person may read the task of the episode. A query if some are sealed."""
    condition = outside_seals(viewer)
    return not condition or Episode.objects.filter(condition, pk=episode).exists()


def _why_over(guest: int) -> str:
    """Return the sentence for a guest who may not play any longer."""
    is_closed = Guest.objects.filter(pk=guest, invite__study__closed__isnull=False).exists()
    return STUDY_OVER if is_closed else INVITE_OVER
