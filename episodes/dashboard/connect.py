"""Connect: a tool as the Python method that a snippet calls it by. Used by the page of an environment."""

from __future__ import annotations

import keyword
from collections.abc import Sequence
from dataclasses import dataclass

from environments.parts import ToolPart

_TYPES = {"whole number": "int", "number": "float", "text": "str", "boolean": "bool", "object": "dict"}
"""Words of `environments/schema_fields.py` -> annotations; all else is text."""


@dataclass(frozen=True, slots=True)
class Argument:
    name: str
    type: str
    description: str
    """One line."""


@dataclass(frozen=True, slots=True)
class Method:
    name: str
    description: str
    """One line without quotes."""
    arguments: Sequence[Argument]
    """The fields that the tool requires, where Python can name them so."""


def method_of(tool: ToolPart) -> Method:
    fields = [one for one in tool.fields if one.is_required and _can_be_named(one.path)]
    arguments = [Argument(one.path, _annotation(one.kind), _line(one.description)) for one in fields]
    return Method(tool.name if _can_be_named(tool.name) else "call", _line(tool.description), arguments)


def _can_be_named(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


def _annotation(kind: str) -> str:
    return "list" if kind.startswith("list") else _TYPES.get(kind, "str")


def _line(text: str) -> str:
    return " ".join(text.partition("\n")[0].replace('"', "'").replace("\\", "").split())[:90]
