"""Flagging: the address by which somebody says that a task is broken, from player, replay and the task's page."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_POST

from environments.curation.errors import Refused
from environments.flags import flag, flags_of
from environments.models import Task, TaskFlag
from episodes.models import Episode
from episodes.playtest.facts import BIGGEST_ID
from episodes.playtest.seat import Seat, seated


@require_POST
@seated
def flag_task(request: HttpRequest, seat: Seat, pk: int) -> HttpResponse:
    """Puts task `pk` into the curators' queue, with `note`; `episode` is where it showed."""
    task = _task(seat, pk)
    episode, note = _showing(seat, task, request.POST.get("episode", "")), request.POST.get("note", "")
    context: dict[str, Any] = {"task": task, "episode": episode, "seat": seat}
    try:
        context["raised"] = flag(task, seat.author, note, episode.pk if episode else None)
    except Refused as error:
        context |= {"problem": str(error), "note": note}
    if "HX-Request" in request.headers:
        return render(request, "episodes/flag.html", {**context, "flags": shown_flags(seat, task)})
    return _page(request, context)


def shown_flags(seat: Seat, task: Task) -> list[TaskFlag]:
    """The open ones of a task; a guest sees no others' words."""
    rows = flags_of(task).open
    return [row for row in rows if row.author == seat.author] if seat.guest else rows


def _task(seat: Seat, pk: int) -> Task:
    """Raises: Http404; guests flag what they have played."""
    found = Task.objects.filter(pk=pk).first() if pk <= BIGGEST_ID else None
    if found is not None and seat.guest and not found.episodes.filter(play__guest=seat.guest).exists():
        found = None
    if found is None:
        raise Http404(f"There is no task {pk} to be flagged.")
    return found


def _showing(seat: Seat, task: Task, asked: str) -> Episode | None:
    """The episode in which it showed; one of another task, or one that a guest may not see, is none."""
    if not (asked.isdecimal() and len(asked) < 19):
        return None
    rows = Episode.objects.filter(pk=int(asked), task=task)
    return (rows.filter(play__guest=seat.guest) if seat.guest else rows).first()


def _page(request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
    """For browsers without scripts."""
    seat, episode, task = context["seat"], context["episode"], context["task"]
    place = ("player" if seat.guest else "episode", episode.pk) if episode else ("task", task.pk)
    links = [(reverse(place[0], args=[place[1]]), "Back")]
    raised = "raised" in context
    sentence = "A curator will look at the task and settle it." if raised else context["problem"]
    title = "Flagged as broken" if raised else "The task was not flagged"
    context = {"title": title, "sentence": sentence, "links": links, "seat": seat}
    return render(request, "orsweb/fault.html", context, status=200 if raised else 422)
