"""The page that asks whether to play on from a step of a recorded episode, and begins it.

The steps up to that one are run again in a fresh session, on the service's loop; `progress_page.py` shows how
far they are.
"""

from __future__ import annotations

import asyncio
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from environments import wiring
from environments.errors import OrsError
from environments.runtime.service import SessionService
from episodes.cards import card_of
from episodes.models import Episode
from episodes.playtest.continuing.origin import NoWayOn, Origin, origin_of
from episodes.playtest.continuing.progress import AT_ONCE_SECONDS, Rerunning
from episodes.playtest.facts import BIGGEST_ID
from episodes.playtest.opening import Continuation, NotOpened, open_play
from episodes.playtest.seat import Seat, seated
from episodes.playtest.tables import tables_of
from episodes.transcript import View, line_of

ANSWER_SECONDS = 5.0
SHOWN_CHARACTERS = 2_000


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@seated
def continue_from(request: HttpRequest, seat: Seat, pk: int) -> HttpResponse:
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


def _parent(seat: Seat, pk: int) -> Episode:
    """Raises: Http404; guests may continue nothing."""
    rows = Episode.objects.select_related("environment", "split", "task")
    found = rows.filter(pk=pk).first() if pk <= BIGGEST_ID and seat.guest is None else None
    if found is None:
        raise Http404(f"There is no episode {pk} to play on from. The Episodes page lists those that are kept.")
    return found


def _step(origin: Origin) -> dict[str, Any]:
    """The last step that will be run again, as recorded; not its reward, for the play may be blind."""
    view = View(1, origin.episode.environment.default_return, SHOWN_CHARACTERS)
    line = line_of(origin.episode, origin.step, view)
    return {"card": card_of(line) if line else None, "definition": view.definition}


def _begin(request: HttpRequest, seat: Seat, origin: Origin) -> tuple[str, int]:
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
        is_done = wiring.ask(start, AT_ONCE_SECONDS + ANSWER_SECONDS)
    except (OrsError, TimeoutError) as error:
        raise NotOpened("The server did not answer in time; look at its log, then try again.", play.pk) from error
    return "player" if is_done else "play_again", play.pk
