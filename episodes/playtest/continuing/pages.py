"""The page of a play whose recorded steps are run again: how far they are, and what to do about a difference.

The page that asks whether to play on from a step of a recorded episode, and begins it.

The steps up to that one are run again in a fresh session, on the service's loop; `progress_page.py` shows how
far they are.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods
from django_htmx.http import HttpResponseClientRedirect

from environments.errors import OrsError
from environments.runtime.service import SessionService
from environments.service import ask_service
from episodes.models import Episode
from episodes.playtest.continuing.origin import NoWayOn, Origin, origin_of
from episodes.playtest.continuing.rerun import AT_ONCE_SECONDS, Rerunning, RerunProgress
from episodes.playtest.live_plays import tables_of
from episodes.playtest.opening import Continuation, NotOpened, open_play
from episodes.playtest.play_facts import PlayFacts
from episodes.playtest.player_parts import held
from episodes.playtest.seat import PlayerSeat, seated
from episodes.playtest.told_steps import cards, step_context, view_of
from episodes.transcript.cards import card_of
from episodes.transcript.steps import TranscriptView, line_of

ANSWER_SECONDS = 5.0
SHOWN_CHARACTERS = 2_000


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@seated
def continue_from(request: HttpRequest, seat: PlayerSeat, pk: int) -> HttpResponse:
    """Whether to play on after `step` of episode `pk`; a POST does it."""
    parent, is_asking = _parent(seat, pk), request.method != "POST"
    asked = (request.GET if is_asking else request.POST).get("step", "").strip()
    context: dict[str, Any] = {"seat": seat, "episode": parent, "environment": parent.environment}
    try:
        origin = origin_of(parent, asked)
    except NoWayOn as refusal:
        return render(request, "playtest/continue.html", {**context, "refusal": refusal}, status=422)
    if not is_asking and (not origin.masked or request.POST.get("stars") == "on"):
        try:
            return redirect(*_begin(request, seat, origin))
        except NotOpened as error:
            context["failed"] = error
    context |= {"origin": origin, "wants_blind": request.POST.get("blind") == "on", **_step(origin)}
    return render(request, "playtest/continue.html", context, status=200 if is_asking else 422)


def _parent(seat: PlayerSeat, pk: int) -> Episode:
    """Raises: Http404; guests may continue nothing."""
    rows = Episode.objects.select_related("environment", "split", "task")
    found = rows.filter(pk=pk).first() if seat.guest is None else None
    if found is None:
        raise Http404(f"There is no episode {pk} to play on from. The Episodes page lists those that are kept.")
    return found


def _step(origin: Origin) -> dict[str, Any]:
    """The last step that will be run again, as recorded; not its reward, for the play may be blind."""
    view = TranscriptView(1, origin.episode.environment.default_return, SHOWN_CHARACTERS)
    line = line_of(origin.episode, origin.step, view)
    return {"card": card_of(line) if line else None, "definition": view.definition}


def _begin(request: HttpRequest, seat: PlayerSeat, origin: Origin) -> tuple[str, int]:
    """Name and number of the page that comes next. Raises: NotOpened."""
    wanted = origin.session(seat, request.headers.get("User-Agent", ""))
    is_blind = request.POST.get("blind") == "on" or origin.episode.environment.is_blind
    play = open_play(seat, wanted, is_blind=is_blind, continues=Continuation(origin.episode, origin.step))

    async def start(service: SessionService) -> bool:
        live = tables_of(service).find(wanted.sid, wanted.owner)
        if live is None:  # it is over already, as its page says
            return True
        rerunning = Rerunning(service, wanted.sid, wanted.owner, origin.episode.pk, origin.step)
        await asyncio.wait([live.run_again(rerunning)], timeout=AT_ONCE_SECONDS)
        return rerunning.is_done

    try:
        is_done = ask_service(start, AT_ONCE_SECONDS + ANSWER_SECONDS)
    except (OrsError, TimeoutError) as error:
        raise NotOpened("The server did not answer in time; look at its log, then try again.", play.pk) from error
    return "player" if is_done else "play_again", play.pk


CHOICES = ("rest", "here", "stop")


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@seated
def again(request: HttpRequest, seat: PlayerSeat, pk: int) -> HttpResponse:
    facts = held(pk, seat)
    if request.method == "POST":
        return _choose(request, facts)
    progress = progress_of(facts)
    if progress is None or progress.state == "done":
        return _to_player(request, pk)
    context = {"seat": seat, "play": facts.play, "progress": progress, **step_context(facts), **_sides(facts, progress)}
    is_piece = "HX-Request" in request.headers
    return render(
        request, "playtest/continue_progress_state.html" if is_piece else "playtest/continue_progress.html", context
    )


def progress_of(facts: PlayFacts) -> RerunProgress | None:
    """Of the steps that are run again in this play; None: there are none, or the play is over."""
    sid, owner = facts.episode.session_id, facts.episode.key_label
    if facts.play.parent_step is None:
        return None

    async def look(service: SessionService) -> RerunProgress | None:
        play = tables_of(service).find(sid, owner)
        if play is None or play.rerunning is None:
            return None
        play.expect()
        return play.rerunning.progress

    try:
        return ask_service(look, ANSWER_SECONDS)
    except (OrsError, TimeoutError):
        return None


def _sides(facts: PlayFacts, progress: RerunProgress) -> dict[str, Any]:
    """The step that came out otherwise, as recorded and as it is now."""
    differs, parent = progress.differs, facts.play.parent
    if progress.state != "differs" or differs is None or parent is None:
        return {}
    lines = (line_of(episode, differs.index, view_of(facts)) for episode in (parent, facts.episode))
    then, now = [*cards(facts, [line for line in lines if line]), None, None][:2]
    return {"sides": (then, now), "now": now, "differing": differs.differing}


def _choose(request: HttpRequest, facts: PlayFacts) -> HttpResponse:
    """rest: run the other steps all the same; here: play on from this one; stop: give it up. Raises: Http404."""
    choice, sid, owner = request.POST.get("choice", ""), facts.episode.session_id, facts.episode.key_label
    if choice not in CHOICES:
        raise Http404(f"choice={choice[:40]!r} is not offered; use {', '.join(CHOICES)}.")

    async def choose(service: SessionService) -> None:
        play = tables_of(service).find(sid, owner)
        if play is None or play.rerunning is None:
            return
        if choice == "stop":
            play.leave()
        elif choice == "here":
            await play.rerunning.stop_here()
        elif play.rerunning.go_on():
            await asyncio.wait([play.run_again(play.rerunning)], timeout=AT_ONCE_SECONDS)

    with contextlib.suppress(OrsError, TimeoutError):  # the page that comes next says how it stands
        ask_service(choose, AT_ONCE_SECONDS + ANSWER_SECONDS)
    if choice == "stop" and facts.play.parent_id is not None:
        return HttpResponseRedirect(f"{reverse('episode', args=[facts.play.parent_id])}#step-{facts.play.parent_step}")
    return redirect("play_again", facts.episode.pk)


def _to_player(request: HttpRequest, pk: int) -> HttpResponse:
    address = reverse("player", args=[pk])
    is_piece = "HX-Request" in request.headers
    return HttpResponseClientRedirect(address) if is_piece else HttpResponseRedirect(address)
