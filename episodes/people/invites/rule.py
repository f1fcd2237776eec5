"""Rules of invites: creating, opening and revoking them, and adding guests.

The secret of a link is shown once; only its hash is stored. Until the invite expires or is revoked,
everybody with the link can become a guest, in any number of browsers; in a study once for each
name. `player_identity.py` says what guests may play.
"""

from __future__ import annotations

import hashlib
import secrets
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Literal

from django.db import transaction
from django.db.models import F
from django.http import HttpRequest
from django.utils import timezone

from environments import security_log
from environments.display.visible import visible
from environments.errors import OrsError
from environments.invisible import without_invisible
from environments.runtime.service import SessionService
from environments.service import ask_service
from episodes.models import Guest, Invite, Play, Study
from episodes.people.remote_play import share_request

TOKEN_BYTES = 32
ALIKE = "Only letters and digits tell names and codes apart, and not their case, accents or script."
_LOOKS_LIKE = str.maketrans(
    "авекмнорстухіјѕһԁԛԝӏαβεζηικμνορτυχıɑɡ", "abekmhopctyxijshdqwiabezhikmnoptyxiag"
)
"""Letters of Cyrillic and Greek, after case folding, that look like Latin ones as capitals or
always; and variants."""
MAX_NAME_CHARACTERS = 60
"""Maximum number of characters of a guest's name."""
REVOKED = "The link was revoked."
CLOSED = "The study was closed."
"""Recorded, as REVOKED, with the end of what guests play then."""
STUDY_CLOSED = "This study is closed"
"""Title of what guests of a closed study read."""
END_SECONDS = 10.0
"""Time within which the service has to end the plays of a revoked invite; otherwise they end
without being awaited."""
State = Literal["open", "expired", "revoked", "closed"]
"""Of an invite; `closed`: with its study."""


class InviteRefused(Exception):
    """The link leads to no open invite. The message is for the visitor, `status` for the response;
    `title` is that of the page if something else than the link is at fault."""

    def __init__(self, sentence: str, status: int, title: str = "") -> None:
        super().__init__(sentence)
        self.status, self.title = status, title


def save_invite(invite: Invite, lasts: timedelta) -> str:
    """Save the new `invite`, which expires after `lasts`; return the secret of its link."""
    token = secrets.token_urlsafe(TOKEN_BYTES)
    invite.token_hash = _hash(token)
    invite.expires = timezone.now() + lasts
    invite.save(force_insert=True)
    security_log.note(
        "invite_changed", f"invite {invite.name}", detail=f"made for {invite.environment}"
    )
    return token


def state_of(invite: Invite) -> State:
    if invite.study is not None and invite.study.closed is not None:
        return "closed"
    if invite.revoked is not None:
        return "revoked"
    return "open" if invite.expires > timezone.now() else "expired"


def shows_end(invite: Invite) -> bool:
    """Return whether guests of a study still see what they came to: also when the link has expired
    or the study is closed, but not if the link was revoked before.
    """
    study = invite.study
    if study is None:
        return False
    return invite.revoked is None or (study.closed is not None and invite.revoked >= study.closed)


def invite_of(token: str) -> Invite:
    """Return the invite with that secret, open or not. Raises: InviteRefused."""
    invite = (
        Invite.objects.select_related("environment", "split", "study")
        .filter(token_hash=_hash(token))
        .first()
    )
    if invite is None:
        raise InviteRefused(
            "There is no invite with this link. Check that you copied the whole link.", 404
        )
    return invite


def refuse_unless_open(invite: Invite) -> None:
    """Raises: InviteRefused if the invite has expired or was revoked, or if its study is closed."""
    state = state_of(invite)
    if state == "closed":
        raise InviteRefused("Nobody can take part in it any longer.", 410, STUDY_CLOSED)
    if state != "open":
        was = "has expired" if state == "expired" else "was revoked"
        raise InviteRefused(f"This invite {was}. Ask the person who sent it for a new one.", 410)


def add_guest(invite: Invite, name: str) -> Guest:
    """Return a new guest of the invite. In a study, a name joins once. Raises: ValueError, with a
    sentence about the name.
    """
    name = person_name(name)
    if not name:
        raise ValueError("Enter a name, so that your episodes can be found.")
    with joining(invite):
        if invite.study_id is not None:
            _check_new(invite, name)
        return Guest.objects.create(invite=invite, name=name)


@contextmanager
def joining(invite: Invite) -> Iterator[None]:
    """Open a transaction in which nobody else joins the study of the invite. The write makes others
    wait, also on SQLite.
    """
    with transaction.atomic():
        Study.objects.filter(invites=invite).update(attempts=F("attempts"))
        yield


def person_name(text: str) -> str:
    """Return a name or ID with single spaces between its words; empty if it has none. Raises:
    ValueError."""
    text_with_spaces = "".join(
        " " if unicodedata.category(character) == "Zs" else character for character in text.strip()
    )
    name = " ".join(filter(None, text_with_spaces.split(" ")))
    if len(name) > MAX_NAME_CHARACTERS:
        raise ValueError(
            f"The name has {len(name)} characters; at most {MAX_NAME_CHARACTERS} are allowed."
        )
    if visible(name) != name or not name.isprintable():
        visible_name = visible(name).replace("\t", "␉").replace("\n", "␊")
        raise ValueError(
            f"{visible_name} contains characters that can't be seen. Use letters, digits and spaces."
        )
    if name and not same_name(name):
        raise ValueError(f"{name} has no letter and no digit, which a name needs.")
    return name


def same_name(name: str) -> str:
    """Return what two spellings of one name, ID or code share: its letters and digits, without case
    and accents.

    Digits are those of ASCII, and letters of other scripts that look like Latin ones are these.
    Between digits, any sign separates numbers: 1.1 and 1-1 are the same, and 11 is another. Vowel
    signs of Indian scripts are letters.
    """
    letters, is_apart = "", False
    for character in unicodedata.normalize("NFKD", without_invisible(name)).casefold():
        kind = unicodedata.category(character)
        # these are apostrophes and the like
        if kind[0] in "LN" and not "\u02b0" <= character <= "\u02ff":
            digit = unicodedata.digit(character, None)
            plain = character.translate(_LOOKS_LIKE) if digit is None else str(digit)
            is_number = letters[-1:].isdigit() and digit is not None
            letters, is_apart = f"{letters}{'.' * (is_apart and is_number)}{plain}", False
        elif kind == "Mc" and not letters[-1:].isascii():
            letters += character
        elif kind not in ("Mn", "Me", "Mc", "Cf") and not character.isspace():
            is_apart = True
    return letters


def _of_name(rows: Iterable[tuple[int, str]], name: str) -> list[int]:
    """Return the ids of the rows with that name; if none is spelt like that, of those with another
    spelling of it."""
    same = [(pk, own) for pk, own in rows if same_name(own) == same_name(name)]
    return [pk for pk, own in same if own == name] or [pk for pk, _ in same]


def _check_new(invite: Invite, name: str) -> None:
    """Raises: ValueError if somebody of that name is in the study of the invite, or has a link of
    their own."""
    guests = Guest.objects.filter(invite__study=invite.study_id).values_list("name", flat=True)
    if other := next(
        (guest for guest in guests.iterator() if same_name(guest) == same_name(name)), ""
    ):
        alike = "" if other == name else f"{ALIKE} "
        raise ValueError(
            f"{name} has joined this study already. {alike}To go on, use the same browser, your "
            "personal link, or the link under “Continue on another device”. If you have none, ask "
            "the person who invited you for a new one."
        )
    links = Invite.objects.filter(study=invite.study_id, is_personal=True).values_list(
        "name", flat=True
    )
    if same_name(name) in map(same_name, links.iterator()):
        raise ValueError(f"{name} has a personal link to this study. Use that one.")


def listed_already(study: Study, names: Iterable[str]) -> str:
    """Return a sentence if one of the names is that of a personal link in another spelling; or
    empty."""
    links = set(Invite.objects.filter(study=study, is_personal=True).values_list("name", flat=True))
    spellings = {same_name(name): name for name in links}
    for name in names:
        if name not in links and (other := spellings.get(same_name(name))):
            return (
                f"{name!r} is the same name as {other!r}, which has a personal link. {ALIKE} Enter "
                f"{other!r} for a new link of that person, or another name for another person."
            )
    return ""


def personal_guest(invite: Invite) -> Guest:
    """Return the one guest of a personal link, whose name the link has. Two tabs that open it first
    are one guest."""
    with transaction.atomic():
        Invite.objects.select_for_update().get(pk=invite.pk)
        return Guest.objects.filter(invite=invite).order_by("pk").first() or Guest.objects.create(
            invite=invite, name=invite.name[:MAX_NAME_CHARACTERS]
        )


def replace_personal(invite: Invite) -> None:
    """Let who is in the study already, by whatever link, go on with the new personal `invite` of
    their name.

    Earlier personal links of the name are revoked.
    """
    with joining(invite):
        others = Invite.objects.filter(study=invite.study_id, is_personal=True).exclude(
            pk=invite.pk
        )
        earlier = _of_name(others.values_list("pk", "name"), invite.name)
        guests = Guest.objects.filter(invite__study=invite.study_id).values_list("pk", "name")
        Guest.objects.filter(pk__in=_of_name(guests, invite.name)).update(invite=invite)
        Invite.objects.filter(pk__in=earlier, revoked=None).update(revoked=timezone.now())
    if earlier:
        security_log.note(
            "invite_changed",
            f"invite {invite.name}",
            detail="replaces an earlier link, which is revoked",
        )


def is_open_to(guest: int) -> bool:
    """Return whether the invite of that guest is still open. One query."""
    return Guest.objects.filter(
        pk=guest, invite__revoked=None, invite__expires__gt=timezone.now()
    ).exists()


def revoke(pk: int, request: HttpRequest | None = None) -> Invite | None:
    """Revoke invite `pk` and return it; None if there is no such invite. What its guests play ends,
    and stays.

    `request`: as of `end_plays`.
    """
    is_new = Invite.objects.filter(pk=pk, revoked=None).update(revoked=timezone.now())
    invite = Invite.objects.filter(pk=pk).first()
    if invite and is_new:
        security_log.note("invite_changed", f"invite {invite.name}", detail="revoked")
    if invite:
        end_plays([invite], request)
    return invite


def end_plays(
    invites: Iterable[Invite], request: HttpRequest | None = None, why: str = REVOKED
) -> None:
    """End what guests of the invites play now, as abandoned, with `why` in the record.

    `request`: that of the page, which other servers get that have such plays; without it, those of
    this server end.
    """
    plays = Play.objects.filter(guest__invite__in=invites, episode__status="running")
    sessions = list(plays.values_list("episode__session_id", "episode__key_label"))

    async def end(service: SessionService) -> None:
        for sid, owner in sessions:
            await service.delete(sid, owner, why)

    if sessions:
        with suppress(OrsError, TimeoutError):  # no server has them any more, or it is stopping
            ask_service(end, END_SECONDS)
    if request is not None:
        share_request(request, [sid for sid, _ in sessions])


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
