"""Parameters in the addresses of pages: a page refuses what it does not take, with the value and
what is allowed. Otherwise a mistyped filter would show, or change, more than was meant.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import wraps
from typing import Any, TypeVar, cast

from django.core.exceptions import BadRequest
from django.http import HttpRequest

from environments.database.storable import id_in
from environments.errors import nearest, shorten

PARSED = "*"
"""Name for `takes`: the view checks the parameters of its address itself."""
View = TypeVar("View", bound=Callable[..., Any])


def cannot_be_used(name: str, value: str, reason: str) -> BadRequest:
    """Return the error for a parameter. `reason`: why it cannot be used, or what can be."""
    return BadRequest(f"{name}={shorten(value, 80)!r} cannot be used: {reason}.")


def no_such(name: str, names: Collection[str], what: str = "parameter", plural: str = "") -> str:
    """Return why a name that is not in `names` cannot be used. `plural`: of `what`, if it is not
    formed by an s."""
    if not names:
        return f"no {what} has that name; there are none here"
    return (
        f"no {what} has that name.{nearest(name, names)} The {plural or f'{what}s'} are "
        f"{', '.join(names)}"
    )


def refuse_others(request: HttpRequest, names: Collection[str]) -> None:
    """Refuse parameters of the address other than `names`. Raises: BadRequest."""
    for name, value in request.GET.dict().items():
        if name not in names:
            raise cannot_be_used(name, value, no_such(name, names))


def refuse_doubles(request: HttpRequest, several: Collection[str] = ()) -> None:
    """Refuse parameters with two values in the address, except those in `several`. Raises:
    BadRequest."""
    for name, values in request.GET.lists():
        if name not in several and len({value for value in values if value.strip()}) > 1:
            problem = "the address has it more than once; one value is allowed"
            raise cannot_be_used(name, ", ".join(values), problem)


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
    """Return the number in a parameter; None where it is absent or empty. Raises: BadRequest."""
    text = request.GET.get(name, "")
    if text and id_in(text) is None:
        raise cannot_be_used(name, text, "it has to be a number, such as 12")
    return id_in(text)


FLAG = ("1", "on")
"""Values of a parameter that is there or not; browsers send on for a box that is checked."""


def flag_asked(request: HttpRequest, name: str) -> bool:
    """Return whether the address has a parameter that is there or not. Raises: BadRequest for
    values not of FLAG."""
    if name in request.GET and request.GET[name] not in FLAG:
        raise cannot_be_used(
            name, request.GET[name], f"allowed are {', '.join(FLAG)}; or leave it out"
        )
    return name in request.GET
