"""Blind: keeps the pages of one episode, and of its task, from the person who plays it blind, while it runs.

Faults: answers of pages that cannot show what was asked for, in the frame, with what to do next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.functional import Promise

from episodes.visibility import blind_episode, is_blind_to, sentence, task_sentence

Link = tuple[str, str]
"""Address and label."""


def refused(
    request: HttpRequest, title: str, sentence: str | Promise, links: Sequence[Link] = (), status: int = 400
) -> HttpResponse:
    """A page that says what is wrong with the request (`sentence` names the value and what is legal)."""
    context = {"title": title, "sentence": sentence, "links": links, "status": status}
    return render(request, "orsweb/error_page.html", context, status=status)


View = Callable[..., HttpResponse]


def unless_blind(view: View) -> View:
    """`view` of the episode `pk`."""

    @wraps(view)
    def wrapped(request: HttpRequest, pk: int, *args: Any, **kwargs: Any) -> HttpResponse:
        return kept_back(request, pk) if is_blind_to(request.user, pk) else view(request, pk, *args, **kwargs)

    return wrapped


def unless_task_blind(view: View) -> View:
    """`view` of the task `pk`."""

    @wraps(view)
    def wrapped(request: HttpRequest, pk: int, *args: Any, **kwargs: Any) -> HttpResponse:
        episode = blind_episode(request.user, pk)
        return view(request, pk, *args, **kwargs) if episode is None else _refused(request, episode, task_sentence)

    return wrapped


def kept_back(request: HttpRequest, pk: int) -> HttpResponse:
    return _refused(request, pk, sentence)


def _refused(request: HttpRequest, episode: int, told: Callable[[int], str]) -> HttpResponse:
    way_on = (f"/play/{episode}/", "Play on")
    return refused(request, "Not before the end", told(episode), [way_on], status=403)
