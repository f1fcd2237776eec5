"""Arguments for a class, `module:Class?size=8&words=["a","b"]`: JSON values of attributes that the
class declares.

They become attributes of a subclass, so that class methods such as `list_tasks` see them too, and
one class can be served under several names.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from environments.authoring.reserved_names import SETTINGS
from environments.errors import Unhostable, nearest, shorten

_MAX_SHOWN_CHARACTERS = 80


def with_arguments(cls: type, base: type, text: str) -> type:
    """Return a subclass of `cls` with the attributes that `text` names; `base` is the Environment
    of its SDK.

    Raises: Unhostable.
    """
    attributes = dict(_attribute(cls, base, part) for part in text.split("&"))
    return type(cls)(
        cls.__name__,
        (cls,),
        {"__module__": cls.__module__, "__qualname__": cls.__qualname__} | attributes,
    )


def _attribute(cls: type, base: type, part: str) -> tuple[str, Any]:
    name, equals, text = part.partition("=")
    name, text = unquote(name), unquote(text)
    if not equals:
        raise Unhostable(
            f"{cls.__name__}?{part} gives no value; write module:Class?name=value&other=value."
        )
    known = _attributes_of(cls, base)
    if name not in known:
        has = f"it has {', '.join(known)}" if known else "it declares none"
        raise Unhostable(
            f"{cls.__name__} has no attribute {name!r} that can be given; "
            f"{has}.{nearest(name, known)}"
        )
    label = f"{cls.__name__}.{name}"
    try:
        value = json.loads(text)
    except ValueError:
        shown = shorten(text, _MAX_SHOWN_CHARACTERS)
        raise Unhostable(
            f'{label} is given {shown}, which is not JSON; write a text as "{shown}".'
        ) from None
    default = getattr(cls, name, None)
    if isinstance(default, tuple) and isinstance(value, list):
        return name, tuple(value)
    if expected := _expected(default, value):
        raise Unhostable(
            f"{label} is given {shorten(text, _MAX_SHOWN_CHARACTERS)}; it has to be {expected}."
        )
    return name, value


def _attributes_of(cls: type, base: type) -> list[str]:
    """Return the names of attributes that hold data: those that the author declares, and settings
    of the contract."""
    own = [one for one in cls.__mro__ if one is not base and issubclass(one, base)]
    names = [name for one in own for name in [*vars(one), *vars(one).get("__annotations__", {})]]
    data = [
        name
        for name in names
        if not name.startswith("_") and _is_data(inspect.getattr_static(cls, name, None))
    ]
    return sorted({*data, *SETTINGS})


def _is_data(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str | Sequence | Mapping)


def _expected(default: Any, value: Any) -> str:
    """Return what a value has to be to take the place of `default`; empty if it can."""
    match default:
        case bool():
            return "" if isinstance(value, bool) else "true or false"
        case int():
            return (
                "" if isinstance(value, int) and not isinstance(value, bool) else "a whole number"
            )
        case float():
            return (
                "" if isinstance(value, int | float) and not isinstance(value, bool) else "a number"
            )
        case str():
            return "" if isinstance(value, str) else "a text"
        case Mapping():
            return "" if isinstance(value, dict) else "an object"
        case Sequence():
            return "" if isinstance(value, list) else "a list"
    return ""
