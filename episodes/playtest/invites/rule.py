"""The rule of invites. A link's secret is told once and kept as its hash alone.

Who holds the link may become a guest, as often as browsers open it, until its time is over or it is taken back. What
a guest may play is `seat.py`'s.
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta
from typing import Literal

from django.utils import timezone

from episodes.models import Guest, Invite

TOKEN_BYTES = 32
LONGEST_NAME = 60
"""Of a guest."""
State = Literal["open", "expired", "revoked"]


class Unwelcome(Exception):
    """The words are the visitor's; `status` is the answer's."""

    def __init__(self, sentence: str, status: int) -> None:
        super().__init__(sentence)
        self.status = status


def write(invite: Invite, lasts: timedelta) -> str:
    """Save the new `invite`, which ends after `lasts`; the secret of its link."""
    token = secrets.token_urlsafe(TOKEN_BYTES)
    invite.token_hash = _hash(token)
    invite.expires = timezone.now() + lasts
    invite.save(force_insert=True)
    return token


def state_of(invite: Invite) -> State:
    if invite.revoked is not None:
        return "revoked"
    return "open" if invite.expires > timezone.now() else "expired"


def welcome(token: str) -> Invite:
    """The open invite of a link. Raises: Unwelcome, which tells nothing of what it was for."""
    invite = Invite.objects.select_related("environment", "split").filter(token_hash=_hash(token)).first()
    if invite is None:
        raise Unwelcome("There is no invite with this link. Check that you copied the whole link.", 404)
    state = state_of(invite)
    if state != "open":
        was = "has expired" if state == "expired" else "was revoked"
        raise Unwelcome(f"This invite {was}. Ask the person who sent it for a new one.", 410)
    return invite


def admit(invite: Invite, name: str) -> Guest:
    """A new guest. Raises: ValueError with a sentence about the name."""
    name = " ".join(name.split())
    if not name:
        raise ValueError("Give a name, so that your episodes can be told from those of others.")
    if len(name) > LONGEST_NAME:
        raise ValueError(f"This name has {len(name)} characters; give one of {LONGEST_NAME} at most.")
    if not name.isprintable():
        raise ValueError("This name holds characters that cannot be shown; use letters, digits and blanks.")
    return Guest.objects.create(invite=invite, name=name)


def is_open_to(guest: int) -> bool:
    """Whether the invite of that guest still holds. One query."""
    return Guest.objects.filter(pk=guest, invite__revoked=None, invite__expires__gt=timezone.now()).exists()


def revoke(pk: int) -> Invite | None:
    """The invite, over from now on; None: there is none. Its guests' episodes stay."""
    Invite.objects.filter(pk=pk, revoked=None).update(revoked=timezone.now())
    return Invite.objects.filter(pk=pk).first()


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
