"""Rules of invites: creating, opening and revoking them, and adding guests.

The secret of a link is shown once; only its hash is stored. Until the invite expires or is revoked, everybody with the
link can become a guest, in any number of browsers. `player_identity.py` says what guests may play.
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta
from typing import Literal

from django.db import transaction
from django.utils import timezone

from environments import security_log
from episodes.models import Guest, Invite

TOKEN_BYTES = 32
MAX_NAME_CHARACTERS = 60
"""Maximum number of characters of a guest's name."""
State = Literal["open", "expired", "revoked"]


class InviteRefused(Exception):
    """The link leads to no open invite; the message is for the visitor, `status` for the response."""

    def __init__(self, sentence: str, status: int) -> None:
        super().__init__(sentence)
        self.status = status


def save_invite(invite: Invite, lasts: timedelta) -> str:
    """Save the new `invite`, which expires after `lasts`; return the secret of its link."""
    token = secrets.token_urlsafe(TOKEN_BYTES)
    invite.token_hash = _hash(token)
    invite.expires = timezone.now() + lasts
    invite.save(force_insert=True)
    security_log.note("invite_changed", f"invite {invite.name}", detail=f"made for {invite.environment}")
    return token


def state_of(invite: Invite) -> State:
    if invite.revoked is not None:
        return "revoked"
    return "open" if invite.expires > timezone.now() else "expired"


def open_invite(token: str) -> Invite:
    """Return the open invite with that secret. Raises: InviteRefused, whose message hides what the invite was for."""
    invite = Invite.objects.select_related("environment", "split", "study").filter(token_hash=_hash(token)).first()
    if invite is None:
        raise InviteRefused("There is no invite with this link. Check that you copied the whole link.", 404)
    refuse_unless_open(invite)
    return invite


def refuse_unless_open(invite: Invite) -> None:
    """Raises: InviteRefused if the invite has expired or was revoked."""
    state = state_of(invite)
    if state != "open":
        was = "has expired" if state == "expired" else "was revoked"
        raise InviteRefused(f"This invite {was}. Ask the person who sent it for a new one.", 410)


def add_guest(invite: Invite, name: str) -> Guest:
    """Return a new guest of the invite. Raises: ValueError, with a sentence about the name."""
    name = " ".join(name.split())
    if not name:
        raise ValueError("Enter a name, so that your episodes can be found.")
    if len(name) > MAX_NAME_CHARACTERS:
        raise ValueError(f"The name has {len(name)} characters; at most {MAX_NAME_CHARACTERS} are allowed.")
    if not name.isprintable():
        raise ValueError("The name contains characters that can't be shown. Use letters, digits and spaces.")
    return Guest.objects.create(invite=invite, name=name)


def personal_guest(invite: Invite) -> Guest:
    """Return the one guest of a personal link, whose name the link has. Two tabs that open it first are one guest."""
    with transaction.atomic():
        Invite.objects.select_for_update().get(pk=invite.pk)
        return Guest.objects.filter(invite=invite).first() or Guest.objects.create(
            invite=invite, name=invite.name[:MAX_NAME_CHARACTERS]
        )


def is_open_to(guest: int) -> bool:
    """Return whether the invite of that guest is still open. One query."""
    return Guest.objects.filter(pk=guest, invite__revoked=None, invite__expires__gt=timezone.now()).exists()


def revoke(pk: int) -> Invite | None:
    """Revoke invite `pk` and return it; None if there is no such invite. Its guests' episodes stay."""
    is_new = Invite.objects.filter(pk=pk, revoked=None).update(revoked=timezone.now())
    invite = Invite.objects.filter(pk=pk).first()
    if invite and is_new:
        security_log.note("invite_changed", f"invite {invite.name}", detail="revoked")
    return invite


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
