"""The pages of a guest in a study: instructions and consent, how far they are, the next task, and
the end."""

from __future__ import annotations

import json
import uuid
from typing import Any

from django.conf import settings
from django.core import signing
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from environments import conf, security_log
from environments.errors import OrsError
from environments.filtering.addresses import takes
from environments.models import Task
from environments.models.task_hash import is_sent_task
from environments.runtime.service import SessionService
from environments.runtime.session_request import SessionRequest
from environments.service import ask_service
from episodes.attempts.rule import LEFT, RAN_OUT
from episodes.models import Episode, Guest, Study
from episodes.people.invites.pages import refusal_page
from episodes.people.invites.rule import REVOKED, InviteRefused, refuse_unless_open, shows_end
from episodes.people.live_play_registry import live_plays_of
from episodes.people.player_identity import GUEST_KEY, PlayerSeat, guest_of, seat_for, seated
from episodes.people.remote_play import remote_page
from episodes.people.session_start import NotStarted, start_play
from episodes.people.studies.dealing import AlreadyStarting, GuestDeck, deal, deck_of, note_started
from episodes.people.task_choice import why_unplayable
from episodes.rendering.kinds import rendered

RETURN_SALT = "orsweb.study.return"
ASK_SECONDS = 5.0
"""Time within which the service says how long a task is kept."""
NOT_PLAYABLE = (
    "Tasks can't be started at the moment. What you have done is saved. Try again later with the "
    "same link."
)


@require_safe
@never_cache
@takes()
def study_home(request: HttpRequest) -> HttpResponse:
    """Return where the guest is in the study: before the first task, between two tasks, or at the
    end.

    The end, with its code, stays when the study is closed and when the link has expired.
    """
    guest = guest_of(request.session)
    if guest is not None and guest.consented is not None and shows_end(guest.invite):
        deck = deck_of(guest)
        if deck.is_over:
            return _page(request, deck)
    answer: HttpResponse = _unfinished(request)
    return answer


@seated
def _unfinished(request: HttpRequest, seat: PlayerSeat) -> HttpResponse:
    deck, page = deck_of(_guest(seat)), None
    if deck.running is not None and conf.is_one_of_several():
        sid = Episode.objects.values_list("session_id", flat=True).get(pk=deck.running)
        page = remote_page(request, sid)  # of the server that plays the task
    return page or _page(request, deck)


@require_POST
@seated
@takes()
def study_begin(request: HttpRequest, seat: PlayerSeat) -> HttpResponse:
    """Note that the guest has read the instructions and agrees, and start the first task."""
    guest = _guest(seat)
    study = guest.invite.study
    if study is not None and study.consent and request.POST.get("agrees") != "on":
        return _page(request, deck_of(guest), {"error": "Check the box to take part."}, status=422)
    Guest.objects.filter(pk=guest.pk, consented=None).update(consented=timezone.now())
    guest.refresh_from_db(fields=["consented"])
    return _next(request, seat, guest)


@require_POST
@seated
@takes()
def study_next(request: HttpRequest, seat: PlayerSeat) -> HttpResponse:
    """Start the next task, or with `again` a further attempt at the last one."""
    guest = _guest(seat)
    return redirect("study_home") if guest.consented is None else _next(request, seat, guest)


@require_safe
@never_cache
def study_return(request: HttpRequest, token: str) -> HttpResponse:
    """Make this browser the guest whose own link it opened, on whatever device."""
    try:
        guest = _returning(token)
    except InviteRefused as refusal:
        security_log.note("login_failed", "invite", detail=str(refusal))
        return refusal_page(request, refusal)
    request.session.cycle_key()
    request.session[GUEST_KEY] = guest.pk
    return redirect("study_home")


def _returning(token: str) -> Guest:
    try:
        pk = signing.loads(token, salt=RETURN_SALT)
    except signing.BadSignature as error:
        raise InviteRefused(
            "This link isn't valid. Check that you copied the whole link.", 404
        ) from error
    guest = (
        Guest.objects.select_related("invite__study")
        .filter(pk=pk, invite__study__isnull=False)
        .first()
    )
    if guest is None:
        raise InviteRefused("This link isn't valid. Check that you copied the whole link.", 404)
    if not shows_end(guest.invite):
        refuse_unless_open(guest.invite)
    return guest


def _guest(seat: PlayerSeat) -> Guest:
    """Return the guest, with the invite and its study. Raises: Http404 for others."""
    if seat.guest is None or seat.study is None:
        raise Http404("You don't take part in a study. The Play page lists what you can play.")
    return seat.guest


def _next(request: HttpRequest, seat: PlayerSeat, guest: Guest) -> HttpResponse:
    study = guest.invite.study
    assert study is not None
    if why_unplayable(study.environment) or not study.environment.is_hosted:
        return _page(request, deck_of(guest), {"error": NOT_PLAYABLE}, status=503)
    try:
        row = deal(guest, again=request.POST.get("again") == "on")
    except AlreadyStarting:
        deck = deck_of(guest)
        if deck.running is not None:
            return redirect("player", deck.running)
        return _page(
            request,
            deck,
            {"error": "This task is being started in another tab. Reload this page."},
            409,
        )
    if row is None:
        return redirect("study_home")
    try:
        session = _session(seat, study, row.task, request.headers.get("User-Agent", ""))
        is_blind = study.is_blind or study.environment.is_blind
        play = start_play(seat, session, is_blind=is_blind)
    except NotStarted as error:
        sentence = f"{error} Press the button to try again."
        return _page(request, deck_of(guest), {"error": sentence}, status=503)
    finally:
        note_started(row)
    return redirect("player", play.pk)


def _session(seat: PlayerSeat, study: Study, task: Task, user_agent: str) -> SessionRequest:
    """Return a session of the task as it was when the study was made."""
    return SessionRequest(
        sid=str(uuid.uuid4()),
        owner=seat.owner,
        environment=study.environment.name,
        spec=json.loads(task.spec),
        is_sent=is_sent_task(task),
        player="human",
        user_agent=user_agent[:300],
    )


def _page(
    request: HttpRequest, deck: GuestDeck, more: dict[str, Any] | None = None, status: int = 200
) -> HttpResponse:
    guest, study = deck.guest, deck.study
    texts = {
        "instructions": study.instructions,
        "consent": study.consent,
        "completion": study.completion,
    }
    link = reverse("study_return", args=[signing.dumps(guest.pk, salt=RETURN_SALT)])
    context = {
        "deck": deck,
        "waiting": None if deck.running is None else _waiting(deck.running, guest.label),
        "study": study,
        "idle_minutes": settings.ORSWEB_SESSION_TIMEOUT / 60,
        "is_new": guest.consented is None,
        "left": "" if deck.running is not None else _how_the_last_was_left(guest),
        **{name: rendered(text, "markdown") if text else "" for name, text in texts.items()},
        "return_link": request.build_absolute_uri(link),
        **(more or {}),
    }
    return render(
        request, "people/study_home.html", {**context, "seat": seat_for(guest)}, status=status
    )


def _waiting(running: int, owner: str) -> dict[str, float | bool | None] | None:
    """Return for how many seconds the running task is kept and may be played, whether a page shows
    it, and whether its clock stands still; None if it isn't played here any more.
    """
    sid = Episode.objects.values_list("session_id", flat=True).get(pk=running)

    async def ask(service: SessionService) -> dict[str, float | bool | None] | None:
        play = live_plays_of(service).find(sid, owner)
        if play is None:
            return None
        times = {"kept": play.kept_seconds, "left": play.time_left}
        return {**times, "is_open": play.is_open, "is_paused": play.is_paused}

    try:
        return ask_service(ask, ASK_SECONDS)
    except (OrsError, TimeoutError):
        return None


def _how_the_last_was_left(guest: Guest) -> str:
    """Return a sentence for a guest whose last task ended while they were away; empty for
    others."""
    last = Episode.objects.filter(play__guest=guest, status="ended").order_by("ended", "pk").last()
    if last is None:
        return ""
    if last.cause == LEFT and last.detail == REVOKED:
        return "Your last task has ended, because the link that you played it by was revoked."
    if last.cause == LEFT and last.detail:
        return "Your last task has ended, because you were away for too long."
    return "The time for your last task is over." if last.cause == RAN_OUT else ""
