"""Decorators that hide what does not exist for a person: everything of private environments that
they are no members of, and an episode that they play blind, with its task, as long as it runs.

`refused` is the page for a request that a view cannot serve.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils.functional import Promise

from environments.access.privacy import viewer_of
from environments.features import url_of_page
from environments.models import Environment, Task
from environments.models.tasks import EnvironmentQuerySet
from environments.tasks.unknown_environment import unknown_environment
from episodes.models import Episode, Run
from episodes.visibility import (
    blind_episode,
    is_blind_to,
    sees_episode,
    sees_run,
    sees_task,
    sentence,
    task_sentence,
)

Link = tuple[str, str]
"""Address and label of a link."""
Row = TypeVar("Row", bound=Model)
ABSENT: dict[type[Model], str] = {
    Episode: (
        "There is no episode {pk}. It may have been deleted; the Episodes page lists all that "
        "exist."
    ),
    Task: "There is no task {pk}. The page of an environment leads to its tasks.",
    Run: "There is no run {pk}. The Runs page lists all runs that agents have named.",
}
"""Sentence about a row that does not exist, or not for the person."""


def refused(
    request: HttpRequest,
    title: str,
    sentence: str | Promise,
    links: Sequence[Link] = (),
    status: int = 400,
) -> HttpResponse:
    """Return a page about what is wrong with the request. `sentence` names the value and what is
    allowed."""
    context = {"title": title, "sentence": sentence, "links": links, "status": status}
    return render(request, "orsweb/error_page.html", context, status=status)


View = Callable[..., HttpResponseBase]


def row_or_404(rows: QuerySet[Row], pk: int) -> Row:
    """Return the episode, task or run among `rows`. Raises: Http404."""
    row = rows.filter(pk=pk).first()
    if row is None:
        raise Http404(ABSENT[rows.model].format(pk=pk))
    return row


def _seen(sees: Callable[[Any, int], bool], model: type[Model]) -> Callable[[View], View]:
    """Return a decorator of a view of one thing, `pk`: without what `sees` says, there is no such
    thing.

    It answers for things that do not exist at all too, so that nobody can tell one from the other.
    """

    def decorate(view: View) -> View:
        @wraps(view)
        def wrapped(request: HttpRequest, pk: int, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not sees(request.user, pk):
                raise Http404(ABSENT[model].format(pk=pk))
            return view(request, pk, *args, **kwargs)

        return wrapped

    return decorate


of_episode = _seen(sees_episode, Episode)
of_task = _seen(sees_task, Task)
of_run = _seen(sees_run, Run)


def environment_named(
    request: HttpRequest, name: str, rows: EnvironmentQuerySet | None = None
) -> Environment:
    """Return the environment among `rows`. Raises: Http404 with similar names if there is none for
    the person."""
    viewer = viewer_of(request.user)
    rows = Environment.objects.all() if rows is None else rows
    environment = rows.seen_by(viewer).filter(name=name).first()
    if environment is None:
        raise Http404(unknown_environment(name, viewer))
    return environment


def unless_blind(view: View) -> View:
    """Return `view`, a view of the episode `pk`, with a refusal for the person who plays that
    episode blind."""

    @wraps(view)
    def wrapped(request: HttpRequest, pk: int, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if is_blind_to(request.user, pk):
            return refused_blind(request, pk)
        return view(request, pk, *args, **kwargs)

    return wrapped


def unless_task_blind(view: View) -> View:
    """Return `view`, a view of the task `pk`, with a refusal for a person who plays an episode of
    it blind."""

    @wraps(view)
    def wrapped(request: HttpRequest, pk: int, *args: Any, **kwargs: Any) -> HttpResponseBase:
        episode = blind_episode(request.user, pk)
        if episode is not None:
            return refused_blind(request, episode, task_sentence(episode))
        return view(request, pk, *args, **kwargs)

    return wrapped


def refused_blind(request: HttpRequest, episode: int, reason: str = "") -> HttpResponse:
    """Return the page that says why the person who plays the episode blind cannot see it, or what
    `reason` is about."""
    player = url_of_page("player", episode)
    links = [(player, "Play on")] if player else []
    reason = reason or sentence(episode)
    return refused(request, "Hidden until the episode ends", reason, links, status=403)
