"""Pages for continuing a recorded episode: the question from which step, and the progress of
running its steps again.

The steps up to the chosen one are run again in a new session, on the service's loop. When a result
differs from the record, the person decides how to go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods
from django_htmx.http import HttpResponseClientRedirect

from environments.errors import OrsError
from environments.filtering.addresses import takes
from environments.runtime.service import SessionService
from environments.service import ask_service
from episodes.browsing.task_lines import name_tasks
from episodes.models import Episode
from episodes.people.continuing.origin import CannotContinue, Origin, origin_of
from episodes.people.continuing.rerun import VIEW_SECONDS, Rerun, RerunProgress
from episodes.people.live_play_registry import live_plays_of
from episodes.people.play_facts import PlayFacts
from episodes.people.play_steps import cards, step_context, view_of
from episodes.people.player_identity import PlayerSeat, seated
from episodes.people.player_parts import play_or_404
from episodes.people.remote_play import remote_page
from episodes.people.session_start import Continuation, NotStarted, start_play
from episodes.transcript.cards import card_of
from episodes.transcript.steps import TranscriptView, line_of

ANSWER_SECONDS = 5.0
MAX_SHOWN_CHARACTERS = 2_000
CHOICES = ("rest", "here", "stop")
"""What a person can choose after a step with a different result: run the other steps, continue
here, give up."""


# --- the page that asks whether to continue -------------------------------------------------------


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@seated
@takes("step")
def continue_from(request: HttpRequest, seat: PlayerSeat, pk: int) -> HttpResponse:
    """Ask whether to continue after `step` of episode `pk`; a POST does it."""
    parent, is_question = _parent(seat, pk), request.method != "POST"
    index = (request.GET if is_question else request.POST).get("step", "").strip()
    context: dict[str, Any] = {"seat": seat, "episode": parent, "environment": parent.environment}
    try:
        origin = origin_of(parent, index)
    except CannotContinue as refusal:
        return render(request, "people/continue.html", {**context, "refusal": refusal}, status=422)
    if not is_question and (not origin.steps_with_stars or request.POST.get("stars") == "on"):
        try:
            return redirect(*_start(request, seat, origin))
        except NotStarted as error:
            context["failed"] = error
    view = TranscriptView(1, parent.environment.default_return, MAX_SHOWN_CHARACTERS)
    line = line_of(parent, origin.step, view)
    context |= {
        "once": secrets.token_hex(16),
        "origin": origin,
        "wants_blind": request.POST.get("blind") == "on",
        # the last step to repeat; the page hides its reward, because the play may be blind
        "card": card_of(line) if line else None,
        "definition": view.definition,
    }
    return render(request, "people/continue.html", context, status=200 if is_question else 422)


def _parent(seat: PlayerSeat, pk: int) -> Episode:
    """Return the episode to continue. Raises: Http404, also for guests, who may not continue
    episodes."""
    rows = Episode.objects.seen_by(seat.viewer).select_related("environment", "split", "task")
    episode = rows.filter(pk=pk).first() if seat.guest is None else None
    if episode is None:
        raise Http404(
            f"There is no episode {pk} to continue. The Episodes page lists all recorded episodes."
        )
    name_tasks([episode])
    return episode


def _start(request: HttpRequest, seat: PlayerSeat, origin: Origin) -> tuple[str, int]:
    """Start the play; return name and argument of the next page's address. Raises: NotStarted."""
    session = origin.session(
        seat, request.headers.get("User-Agent", ""), request.POST.get("once", "")
    )
    is_blind = request.POST.get("blind") == "on" or origin.episode.environment.is_blind
    play = start_play(
        seat, session, is_blind=is_blind, continues=Continuation(origin.episode, origin.step)
    )

    async def start(service: SessionService) -> bool:
        live = live_plays_of(service).find(session.sid, session.owner)
        if live is None:  # the session has already ended, as its page says
            return True
        if live.rerun is not None:  # the form was submitted twice
            return live.rerun.is_done
        rerun = Rerun(service, session.sid, session.owner, origin.episode.pk, origin.step)
        await asyncio.wait([live.run_again(rerun)], timeout=VIEW_SECONDS)
        return rerun.is_done

    try:
        is_done = ask_service(start, VIEW_SECONDS + ANSWER_SECONDS)
    except (OrsError, TimeoutError) as error:
        raise NotStarted(
            "The server did not answer in time. Check its log, then try again.", play.pk
        ) from error
    return "player" if is_done else "play_again", play.pk


# --- the page of the progress ---------------------------------------------------------------------


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@seated
@takes()
def again(request: HttpRequest, seat: PlayerSeat, pk: int) -> HttpResponse:
    """Return the progress of running recorded steps again; a POST sends a `choice` of CHOICES."""
    facts = play_or_404(pk, seat)
    if (elsewhere := continued_elsewhere(request, facts)) is not None:
        return elsewhere
    if request.method == "POST":
        return _choose(request, facts)
    progress, is_partial = progress_of(facts), "HX-Request" in request.headers
    if progress is None or progress.state == "done":
        address = reverse("player", args=[pk])
        return HttpResponseClientRedirect(address) if is_partial else redirect(address)
    context = {
        "seat": seat,
        "play": facts.play,
        "progress": progress,
        **step_context(facts),
        **_sides(facts, progress),
    }
    return render(
        request,
        "people/continue_progress_state.html" if is_partial else "people/continue_progress.html",
        context,
    )


def continued_elsewhere(request: HttpRequest, facts: PlayFacts) -> HttpResponse | None:
    """Fetch the page from the server that runs the recorded steps again; None if that is this
    server."""
    if facts.play.parent_step is None or facts.episode.status != "running":
        return None
    return remote_page(request, facts.episode.session_id)


def progress_of(facts: PlayFacts) -> RerunProgress | None:
    """Return the progress of the steps that this play runs again; None if there are none or the
    play has ended."""
    sid, owner = facts.episode.session_id, facts.episode.key_label
    if facts.play.parent_step is None:
        return None

    async def read(service: SessionService) -> RerunProgress | None:
        play = live_plays_of(service).find(sid, owner)
        if play is None or play.rerun is None:
            return None
        play.start_grace()
        return play.rerun.progress

    try:
        return ask_service(read, ANSWER_SECONDS)
    except (OrsError, TimeoutError):
        return None


def _sides(facts: PlayFacts, progress: RerunProgress) -> dict[str, Any]:
    """Return the context of the step with a different result: as recorded and as it is now."""
    differs, parent = progress.differs, facts.play.parent
    if progress.state != "differs" or differs is None or parent is None:
        return {}
    lines = (line_of(episode, differs.index, view_of(facts)) for episode in (parent, facts.episode))
    then, now = [*cards(facts, [line for line in lines if line]), None, None][:2]
    return {
        "sides": (then, now),
        "now": now,
        "differing": [part for part in differs.differing if part != "components"],
    }


def _choose(request: HttpRequest, facts: PlayFacts) -> HttpResponse:
    """Do what the person chose after a difference; see CHOICES. Raises: Http404."""
    choice, sid, owner = (
        request.POST.get("choice", ""),
        facts.episode.session_id,
        facts.episode.key_label,
    )
    if choice not in CHOICES:
        raise Http404(f"choice={choice[:40]!r} is unknown; use {', '.join(CHOICES)}.")

    async def choose(service: SessionService) -> None:
        play = live_plays_of(service).find(sid, owner)
        if play is None or play.rerun is None:
            return
        if choice == "stop":
            play.abandon()
        elif choice == "here":
            await play.rerun.stop_here()
        elif play.rerun.go_on():
            await asyncio.wait([play.run_again(play.rerun)], timeout=VIEW_SECONDS)

    with contextlib.suppress(OrsError, TimeoutError):  # the next page shows the state
        ask_service(choose, VIEW_SECONDS + ANSWER_SECONDS)
    if choice == "stop" and facts.play.parent_id is not None:
        return HttpResponseRedirect(
            f"{reverse('episode', args=[facts.play.parent_id])}#step-{facts.play.parent_step}"
        )
    return redirect("play_again", facts.episode.pk)
