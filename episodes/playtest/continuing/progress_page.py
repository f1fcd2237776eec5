"""The page of a play whose recorded steps are run again: how far they are, and what to do about a difference."""

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

from environments import wiring
from environments.errors import OrsError
from environments.runtime.service import SessionService
from episodes.playtest.continuing.progress import AT_ONCE_SECONDS, Progress
from episodes.playtest.facts import Facts
from episodes.playtest.pieces import held
from episodes.playtest.seat import Seat, seated
from episodes.playtest.shown import cards, step_context, view_of
from episodes.playtest.tables import tables_of
from episodes.transcript import line_of

ANSWER_SECONDS = 5.0
CHOICES = ("rest", "here", "stop")


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@seated
def again(request: HttpRequest, seat: Seat, pk: int) -> HttpResponse:
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


def progress_of(facts: Facts) -> Progress | None:
    """Of the steps that are run again in this play; None: there are none, or the play is over."""
    sid, owner = facts.episode.session_id, facts.episode.key_label
    if facts.play.parent_step is None:
        return None

    async def look(service: SessionService) -> Progress | None:
        play = tables_of(service).find(sid, owner)
        if play is None or play.rerunning is None:
            return None
        play.expect()
        return play.rerunning.progress

    try:
        return wiring.ask(look, ANSWER_SECONDS)
    except (OrsError, TimeoutError):
        return None


def _sides(facts: Facts, progress: Progress) -> dict[str, Any]:
    """The step that came out otherwise, as recorded and as it is now."""
    differs, parent = progress.differs, facts.play.parent
    if progress.state != "differs" or differs is None or parent is None:
        return {}
    lines = (line_of(episode, differs.index, view_of(facts)) for episode in (parent, facts.episode))
    then, now = [*cards(facts, [line for line in lines if line]), None, None][:2]
    return {"sides": (then, now), "now": now, "differing": differs.differing}


def _choose(request: HttpRequest, facts: Facts) -> HttpResponse:
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
        wiring.ask(choose, AT_ONCE_SECONDS + ANSWER_SECONDS)
    if choice == "stop" and facts.play.parent_id is not None:
        return HttpResponseRedirect(f"{reverse('episode', args=[facts.play.parent_id])}#step-{facts.play.parent_step}")
    return redirect("play_again", facts.episode.pk)


def _to_player(request: HttpRequest, pk: int) -> HttpResponse:
    address = reverse("player", args=[pk])
    is_piece = "HX-Request" in request.headers
    return HttpResponseClientRedirect(address) if is_piece else HttpResponseRedirect(address)
