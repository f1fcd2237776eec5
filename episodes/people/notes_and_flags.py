"""Views for notes on episodes and for flags on broken tasks, used by player, replay and the task's
page.

Guests write notes and flags only on what they have played, and see only their own.
"""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from environments.database.storable import id_in
from environments.filtering.addresses import takes
from environments.models import Task, TaskFlag
from environments.tasks.flags import FlagRefused, flag, flags_of
from episodes.models import Episode
from episodes.people.player_identity import PlayerSeat, seated
from episodes.transcript.notes import BadNote, add_note, notes_of, remove_note


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@seated
@takes()
def notes(request: HttpRequest, seat: PlayerSeat, pk: int) -> HttpResponse:
    """Return the list of notes. A POST adds `text` to `step` (empty: the episode) or deletes the
    note `delete`."""
    episode, is_partial, problem = _episode(seat, pk), "HX-Request" in request.headers, ""
    if request.method == "POST":
        try:
            if "delete" in request.POST:
                remove_note(episode, seat.author, request.POST["delete"])
            else:
                text, index = request.POST.get("text", ""), request.POST.get("step", "")
                add_note(episode, seat.author, text, index)
        except BadNote as error:
            problem = str(error)
        else:
            if not is_partial:
                return redirect(f"{_page_of(seat, pk)}#notes")
    if problem and not is_partial:
        links = [(_page_of(seat, pk), f"Back to episode {pk}")]
        context = {
            "title": "The note wasn't saved",
            "sentence": problem,
            "links": links,
            "seat": seat,
        }
        return render(request, "orsweb/error_page.html", context, status=422)
    notes_shown = notes_of(episode, seat.author if seat.guest else None)
    context = {"episode": episode, "notes": notes_shown, "author": seat.author, "problem": problem}
    return render(request, "episodes/notes_list.html", context)


def _episode(seat: PlayerSeat, pk: int) -> Episode:
    """Return the episode `pk`. Raises: Http404, also for guests who did not play it."""
    rows = Episode.objects.seen_by(seat.viewer)
    rows = rows.filter(play__guest=seat.guest) if seat.guest else rows
    episode = rows.filter(pk=pk).first()
    if episode is None:
        raise Http404(f"There is no episode {pk} to write notes on. It may have been deleted.")
    return episode


def _page_of(seat: PlayerSeat, pk: int) -> str:
    return reverse("player" if seat.guest else "episode", args=[pk])


@require_POST
@seated
@takes()
def flag_task(request: HttpRequest, seat: PlayerSeat, pk: int) -> HttpResponse:
    """Flag task `pk` as broken for curators, with a `note`. `episode` is where the problem
    showed."""
    rows = Task.objects.seen_by(seat.viewer).filter(pk=pk)
    task = (rows.filter(episodes__play__guest=seat.guest) if seat.guest else rows).first()
    if task is None:  # or a guest has not played it
        raise Http404(f"There is no task {pk} to report.")
    note = request.POST.get("note", "")
    episodes = Episode.objects.filter(pk=id_in(request.POST.get("episode", "")) or 0, task=task)
    episode = (episodes.filter(play__guest=seat.guest) if seat.guest else episodes).first()
    context: dict[str, Any] = {"task": task, "episode": episode, "seat": seat}
    try:
        context["raised"] = flag(task, seat.author, note, episode.pk if episode else None)
    except FlagRefused as error:
        context |= {"problem": str(error), "note": note}
    if "HX-Request" in request.headers:
        return render(
            request, "episodes/task_flags.html", {**context, "flags": visible_flags(seat, task)}
        )
    return _page(request, context)


def visible_flags(seat: PlayerSeat, task: Task) -> list[TaskFlag]:
    """Return the open flags of a task that the person may see: guests see their own."""
    rows = flags_of(task).open
    return [row for row in rows if row.author == seat.author] if seat.guest else rows


def _page(request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
    """Return the answer for browsers without scripts."""
    seat, episode, task = context["seat"], context["episode"], context["task"]
    place = ("player" if seat.guest else "episode", episode.pk) if episode else ("task", task.pk)
    links = [(reverse(place[0], args=[place[1]]), "Back")]
    is_sent = "raised" in context
    if seat.guest:
        title = "Your report was sent" if is_sent else "Your report wasn't sent"
        thanks = "Thank you. Somebody will look at the task."
    else:
        title = "Flagged as broken" if is_sent else "The task wasn't flagged"
        thanks = "Thanks. A curator will look at the task."
    sentence = thanks if is_sent else context["problem"]
    context = {"title": title, "sentence": sentence, "links": links, "seat": seat}
    return render(request, "orsweb/error_page.html", context, status=200 if is_sent else 422)
