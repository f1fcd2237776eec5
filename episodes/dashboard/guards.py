"""Decorators that hide an episode and its task from the person who plays it blind, as long as it runs.

`refused` is the page that other views return for a request that they cannot serve.
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
"""Address and label of a link."""


def refused(
    request: HttpRequest, title: str, sentence: str | Promise, links: Sequence[Link] = (), status: int = 400
) -> HttpResponse:
    """Return a page about what is wrong with the request. `sentence` names the value and what is allowed."""
    context = {"title": title, "sentence": sentence, "links": links, "status": status}
    return render(request, "orsweb/error_page.html", context, status=status)


View = Callable[..., HttpResponse]


def unless_blind(view: View) -> View:
    """Return `view`, a view of the episode `pk`, with a refusal for the person who plays that episode blind."""

    @wraps(view)
    def wrapped(request: HttpRequest, pk: int, *args: Any, **kwargs: Any) -> HttpResponse:
        return refused_blind(request, pk) if is_blind_to(request.user, pk) else view(request, pk, *args, **kwargs)

    return wrapped


def unless_task_blind(view: View) -> View:
    """Return `view`, a view of the task `pk`, with a refusal for a person who plays an episode of it blind."""

    @wraps(view)
    def wrapped(request: HttpRequest, pk: int, *args: Any, **kwargs: Any) -> HttpResponse:
        episode = blind_episode(request.user, pk)
        return view(request, pk, *args, **kwargs) if episode is None else _refused(request, episode, task_sentence)

    return wrapped


def refused_blind(request: HttpRequest, pk: int) -> HttpResponse:
    """Return the page that says why the person who plays the episode `pk` blind cannot see it."""
    return _refused(request, pk, sentence)


def _refused(request: HttpRequest, episode: int, reason: Callable[[int], str]) -> HttpResponse:
    next_link = (f"/play/{episode}/", "Play on")
    return refused(request, "Hidden until the episode ends", reason(episode), [next_link], status=403)
