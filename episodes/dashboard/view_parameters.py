"""Parameters that the addresses of several pages share: the definition of the return, the threshold, numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Concatenate, ParamSpec, cast

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse

from environments.models import Environment
from environments.scoring.definition import Definition, definition_of
from environments.scoring.returns import RETURNS, Return
from episodes.filtering.conditions import NamedRows
from episodes.filtering.filters import EpisodeFilter
from episodes.filtering.parameters import BadFilter, chosen, given, real, unknown_name, whole, words

Rest = ParamSpec("Rest")
View = Callable[Concatenate[HttpRequest, Rest], HttpResponse]


def takes(*names: str) -> Callable[[View[Rest]], View[Rest]]:
    """Return a decorator of a view that refuses parameters other than `names`."""

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
    """Return the environment's definition with `return` and `threshold` of the address. Raises: BadFilter."""
    return definition_of(environment, return_asked(request), threshold_asked(request))


def return_asked(request: HttpRequest) -> Return | None:
    """Return the definition of the return in the address; None for each environment's own. Raises: BadFilter."""
    return given(request.GET, "return", chosen(RETURNS))


def threshold_asked(request: HttpRequest) -> float | None:
    """Return the number that a success has to exceed; None for each environment's own. Raises: BadFilter."""
    return given(request.GET, "threshold", real)


def revision_asked(request: HttpRequest) -> tuple[str, Sequence[int]]:
    """Return the revision in the address, and the ids of its rows; empty without one. Raises: BadFilter."""
    name = given(request.GET, "revision", words) or ""
    named = NamedRows.of(EpisodeFilter(revision=name)) if name else None
    if named and named.unknown:
        raise BadFilter("revision", name, named.unknown.rstrip("."))
    return name, named.revisions if named else ()


def whole_asked(request: HttpRequest, name: str) -> int | None:
    """Return the whole number in the parameter `name`; None where it is absent or empty. Raises: BadFilter."""
    return given(request.GET, name, whole)
