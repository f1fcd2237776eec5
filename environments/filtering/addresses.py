"""Parameters in the addresses of pages: a page refuses what it does not take, with the value and
what is allowed. Otherwise a mistyped filter would show, or change, more than was meant.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import wraps
from typing import Any, TypeVar, cast

from django.http import HttpRequest

from environments.database.storable import id_in
from environments.filtering.parameters import BadFilter, refuse_double, unknown_name

PARSED = "*"
"""Name for `takes`: the view checks the parameters of its address itself."""
View = TypeVar("View", bound=Callable[..., Any])


def refuse_others(request: HttpRequest, names: Collection[str]) -> None:
    """Refuse parameters of the address other than `names`, except empty ones. Raises: BadFilter."""
    for name, value in request.GET.dict().items():
        if name not in names and value.strip():
            raise unknown_name(name, value, names)


def refuse_doubles(request: HttpRequest, several: Collection[str] = ()) -> None:
    """Refuse parameters with two values in the address, except those in `several`. Raises:
    BadFilter."""
    for name in request.GET:
        if name not in several:
            refuse_double(request.GET, name)


def takes(*names: str, several: Collection[str] = ()) -> Callable[[View], View]:
    """Return a decorator of a view, or of a method that is one, that refuses other parameters in
    the address than `names`.

    PARSED as the only name: the view checks its parameters itself. `several`: names that may have
    several values.
    """

    def decorate(view: View) -> View:
        @wraps(view)
        def checked(*args: Any, **kwargs: Any) -> Any:
            request = next(argument for argument in args if isinstance(argument, HttpRequest))
            if PARSED not in names:
                refuse_others(request, names)
                refuse_doubles(request, several)
            return view(*args, **kwargs)

        checked.takes = names  # type: ignore[attr-defined]  # read by `orsweb.accounts.admin_site`
        return cast(View, checked)

    return decorate


def id_asked(request: HttpRequest, name: str) -> int | None:
    """Return the number in a parameter; None where it is absent or empty. Raises: BadFilter."""
    text = request.GET.get(name, "")
    if text and id_in(text) is None:
        raise BadFilter(name, text, "it has to be a number, such as 12")
    return id_in(text)


FLAG = ("1", "on")
"""Values of a parameter that is there or not; browsers send on for a box that is checked."""


def flag_asked(request: HttpRequest, name: str) -> bool:
    """Return whether the address has a parameter that is there or not; empty, it is not. Raises:
    BadFilter for values not of FLAG."""
    value = request.GET.get(name, "").strip()
    if value and value not in FLAG:
        raise BadFilter(name, value, f"allowed are {', '.join(FLAG)}; or leave it out")
    return bool(value)
