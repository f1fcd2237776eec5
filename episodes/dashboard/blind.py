"""Blind: keeps the pages of one episode from whoever plays it blind, for as long as it runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse

from episodes.blinding import is_blind_to, sentence
from episodes.dashboard.faults import refused

View = Callable[..., HttpResponse]


def unless_blind(view: View) -> View:
    """`view` of the episode `pk`."""

    @wraps(view)
    def wrapped(request: HttpRequest, pk: int, *args: Any, **kwargs: Any) -> HttpResponse:
        return kept_back(request, pk) if is_blind_to(request.user, pk) else view(request, pk, *args, **kwargs)

    return wrapped


def kept_back(request: HttpRequest, pk: int) -> HttpResponse:
    return refused(request, "Not before the end", sentence(pk), [(f"/play/{pk}/", "Play on")], status=403)
