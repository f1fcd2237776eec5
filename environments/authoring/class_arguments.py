"""Arguments for a class, `module:Class?size=8&words=["a","b"]`: JSON values of attributes that the
class declares.

They become attributes of a subclass, so that class methods such as `list_tasks` see them too, and
one class can be served under several names.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any
from urllib.parse import unquote

from environments.authoring.reserved_names import SETTINGS
from environments.errors import Unhostable, nearest, shorten

_MAX_QUOTE_CHARACTERS = 80
_DATA = (NoneType, bool, int, float, str, Sequence, Mapping)
_KINDS: tuple[tuple[type, Any, str], ...] = (
    (bool, bool, "true or false"),
    (int, int, "a whole number"),
    (float, int | float, "a number"),
    (str, str, "a text"),
    (Mapping, dict, "an object"),
    (Sequence, list, "a list"),
)
"""Types of a default, the first that fits; the type that a JSON value needs; and its name."""


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
    names = _attributes_of(cls, base)
    if name not in names:
        has = f"it has {', '.join(names)}" if names else "it declares none"
        raise Unhostable(
            f"{cls.__name__} has no attribute {name!r} that can be given; "
            f"{has}.{nearest(name, names)}"
        )
    label = f"{cls.__name__}.{name}"
    quote = shorten(text, _MAX_QUOTE_CHARACTERS)
    try:
        value = json.loads(text)
    except ValueError:
        raise Unhostable(
            f'{label} is given {quote}, which is not JSON; write a text as "{quote}".'
        ) from None
    default = getattr(cls, name, None)
    if isinstance(default, tuple) and isinstance(value, list):
        return name, tuple(value)
    if requirement := _requirement(default, value):
        raise Unhostable(f"{label} is given {quote}; it has to be {requirement}.")
    return name, value


def _attributes_of(cls: type, base: type) -> list[str]:
    """Return the names of attributes that hold data: those that the author declares, and settings
    of the contract."""
    names = set(SETTINGS)
    for owner in cls.__mro__:
        if owner is base or not issubclass(owner, base):
            continue
        for name in [*vars(owner), *vars(owner).get("__annotations__", {})]:
            value = inspect.getattr_static(cls, name, None)
            if not name.startswith("_") and isinstance(value, _DATA):
                names.add(name)
    return sorted(names)


def _requirement(default: Any, value: Any) -> str:
    """Return what `value` has to be to take the place of `default`; empty if it is that."""
    for kind, json_kind, words in _KINDS:
        if isinstance(default, kind):
            # True is an int in Python, and no number in JSON
            is_boolean = isinstance(value, bool) and json_kind is not bool
            return words if is_boolean or not isinstance(value, json_kind) else ""
    return ""
