"""Asking: what addresses of several pages have in common: their parameters, a definition of the return, a number."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, cast

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse

from environments.database.storable import MAX_BIGINT
from environments.models import Environment
from environments.scoring.definition import Definition, definition_of
from environments.scoring.returns import RETURNS, Return
from episodes.filtering.parameters import BadFilter, unknown_name

Rest = ParamSpec("Rest")
View = Callable[Concatenate[HttpRequest, Rest], HttpResponse]


def takes(*names: str) -> Callable[[View[Rest]], View[Rest]]:
    """Decorates a view whose address has the parameters `names` and no others."""

    def decorate(view: View[Rest]) -> View[Rest]:
        @wraps(view)
        def checked(request: HttpRequest, *args: Rest.args, **kwargs: Rest.kwargs) -> HttpResponse:
            for name, value in request.GET.items():
                if name not in names:
                    raise BadRequest(str(unknown_name(name, value, names)))
            return view(request, *args, **kwargs)

        return cast(View[Rest], checked)

    return decorate


def definition_asked(request: HttpRequest, environment: Environment) -> Definition:
    """The environment's, unless `return` or `threshold` say otherwise. Raises: BadFilter."""
    return definition_of(environment, return_asked(request), threshold_asked(request))


def return_asked(request: HttpRequest) -> Return | None:
    """None: each environment's own. Raises: BadFilter."""
    asked = request.GET.get("return", "").strip()
    chosen = next((one for one in RETURNS if one == asked), None)
    if asked and chosen is None:
        raise BadFilter("return", asked, f"use {', '.join(RETURNS)}, or leave it out")
    return chosen


def threshold_asked(request: HttpRequest) -> float | None:
    """None: each environment's own. Raises: BadFilter."""
    text = request.GET.get("threshold", "").strip()
    try:
        threshold = float(text) if text else None
    except ValueError:
        threshold = float("nan")
    if threshold is not None and not abs(threshold) < float("inf"):
        raise BadFilter("threshold", text, "give the number that a success has to exceed, such as 0.9")
    return threshold


def whole_asked(request: HttpRequest, name: str) -> int | None:
    """None: not given. Raises: BadFilter."""
    text = request.GET.get(name, "").strip()
    if not text:
        return None
    if not text.removeprefix("-").isdecimal() or len(text) > 19 or abs(int(text)) > MAX_BIGINT:
        raise BadFilter(name, text, "give a whole number")
    return int(text)
