"""Flagging: the address by which somebody says that a task is broken, from player, replay and the task's page.

Noting: the address by which notes on an episode are read, made and deleted, from the replay and from the player.

A guest's are of what the guest has played, and no others' are shown to a guest.
"""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from environments.curation.action import ActionRefused
from environments.curation.flags import flag, flags_of
from environments.models import Task, TaskFlag
from episodes.models import Episode
from episodes.playtest.play_facts import BIGGEST_ID
from episodes.playtest.seat import PlayerSeat, seated
from episodes.transcript.notes import BadNote, add_note, notes_of, remove_note


@require_POST
@seated
def flag_task(request: HttpRequest, seat: PlayerSeat, pk: int) -> HttpResponse:
    """Puts task `pk` into the curators' queue, with `note`; `episode` is where it showed."""
    task = _task(seat, pk)
    episode, note = _showing(seat, task, request.POST.get("episode", "")), request.POST.get("note", "")
    context: dict[str, Any] = {"task": task, "episode": episode, "seat": seat}
    try:
        context["raised"] = flag(task, seat.author, note, episode.pk if episode else None)
    except ActionRefused as error:
        context |= {"problem": str(error), "note": note}
    if "HX-Request" in request.headers:
        return render(request, "episodes/task_flags.html", {**context, "flags": shown_flags(seat, task)})
    return _page(request, context)


def shown_flags(seat: PlayerSeat, task: Task) -> list[TaskFlag]:
    """The open ones of a task; a guest sees no others' words."""
    rows = flags_of(task).open
    return [row for row in rows if row.author == seat.author] if seat.guest else rows


def _task(seat: PlayerSeat, pk: int) -> Task:
    """Raises: Http404; guests flag what they have played."""
    found = Task.objects.filter(pk=pk).first() if pk <= BIGGEST_ID else None
    if found is not None and seat.guest and not found.episodes.filter(play__guest=seat.guest).exists():
        found = None
    if found is None:
        raise Http404(f"There is no task {pk} to be flagged.")
    return found


def _showing(seat: PlayerSeat, task: Task, asked: str) -> Episode | None:
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
    return render(request, "orsweb/error_page.html", context, status=200 if raised else 422)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@seated
def notes(request: HttpRequest, seat: PlayerSeat, pk: int) -> HttpResponse:
    """The list; a POST adds `text` to `step` (empty: to the whole episode) or deletes the note of id `delete`."""
    episode, is_piece, problem = _episode(seat, pk), "HX-Request" in request.headers, ""
    if request.method == "POST":
        try:
            _change(request, episode, seat.author)
        except BadNote as error:
            problem = str(error)
        else:
            if not is_piece:
                return redirect(f"{_page_of(seat, pk)}#notes")
    if problem and not is_piece:
        links = [(_page_of(seat, pk), f"Back to episode {pk}")]
        context = {"title": "The note was not kept", "sentence": problem, "links": links, "seat": seat}
        return render(request, "orsweb/error_page.html", context, status=422)
    found = notes_of(episode, seat.author if seat.guest else None)
    context = {"episode": episode, "notes": found, "author": seat.author, "problem": problem}
    return render(request, "episodes/notes_list.html", context)


def _change(request: HttpRequest, episode: Episode, author: str) -> None:
    """Raises: BadNote."""
    if "delete" in request.POST:
        remove_note(episode, author, request.POST["delete"])
    else:
        add_note(episode, author, request.POST.get("text", ""), request.POST.get("step", ""))


def _episode(seat: PlayerSeat, pk: int) -> Episode:
    """Raises: Http404."""
    rows = Episode.objects.filter(play__guest=seat.guest) if seat.guest else Episode.objects.all()
    found = rows.filter(pk=pk).first() if pk <= BIGGEST_ID else None
    if found is None:
        raise Http404(f"There is no episode {pk} to write notes on. It may have been deleted.")
    return found


def _page_of(seat: PlayerSeat, pk: int) -> str:
    return reverse("player" if seat.guest else "episode", args=[pk])
