"""Noting: the address by which notes on an episode are read, made and deleted, from the replay and from the player.

A guest's are of what the guest has played, and no others' are shown to a guest.
"""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from episodes.models import Episode
from episodes.notes import BadNote, add_note, notes_of, remove_note
from episodes.playtest.facts import BIGGEST_ID
from episodes.playtest.seat import Seat, seated


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@seated
def notes(request: HttpRequest, seat: Seat, pk: int) -> HttpResponse:
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
        return render(request, "orsweb/fault.html", context, status=422)
    found = notes_of(episode, seat.author if seat.guest else None)
    context = {"episode": episode, "notes": found, "author": seat.author, "problem": problem}
    return render(request, "episodes/notes_list.html", context)


def _change(request: HttpRequest, episode: Episode, author: str) -> None:
    """Raises: BadNote."""
    if "delete" in request.POST:
        remove_note(episode, author, request.POST["delete"])
    else:
        add_note(episode, author, request.POST.get("text", ""), request.POST.get("step", ""))


def _episode(seat: Seat, pk: int) -> Episode:
    """Raises: Http404."""
    rows = Episode.objects.filter(play__guest=seat.guest) if seat.guest else Episode.objects.all()
    found = rows.filter(pk=pk).first() if pk <= BIGGEST_ID else None
    if found is None:
        raise Http404(f"There is no episode {pk} to write notes on. It may have been deleted.")
    return found


def _page_of(seat: Seat, pk: int) -> str:
    return reverse("player" if seat.guest else "episode", args=[pk])
