"""References within a JSON Schema (`$ref`): what they point at, and which a schema has. Needs no other document."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any
from urllib.parse import unquote

_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_NO_SCHEMAS = frozenset({"const", "enum", "default", "example", "examples", "required"})
_MAPS = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
"""Keywords whose value has a schema at each name."""


class References:
    """The references of one schema."""

    def __init__(self, root: Any) -> None:
        self._root = root

    def target(self, reference: Any) -> Any:
        """Return the part of the schema at a reference: a JSON pointer (RFC 6901, section 6), or an anchor.

        Raises: LookupError for a part that the schema does not have, and for another document.
        """
        missing = LookupError(f"it refers to {reference!r}, which it does not contain")
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise missing
        pointer, target = unquote(reference[1:]), self._root
        if pointer and not pointer.startswith("/"):
            if pointer not in self._anchors:
                raise missing
            return self._anchors[pointer]
        for escaped in pointer.split("/")[1:]:
            name = escaped.replace("~1", "/").replace("~0", "~")
            if isinstance(target, Mapping) and name in target:
                target = target[name]
            elif isinstance(target, list) and _INDEX.fullmatch(name) and int(name) < len(target):
                target = target[int(name)]
            else:
                raise missing
        return target

    @cached_property
    def _anchors(self) -> dict[str, Any]:
        names = (
            (part.get(keyword), part) for part in parts_of(self._root) for keyword in ("$anchor", "$dynamicAnchor")
        )
        return {name: part for name, part in names if isinstance(name, str)}


def parts_of(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Yield a schema and all schemas in it, those that are true or false left out."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, Mapping):
            yield part
            for keyword, value in part.items():
                if keyword in _MAPS and isinstance(value, Mapping):
                    waiting += value.values()
                elif keyword not in _NO_SCHEMAS:
                    waiting.append(value)


def with_references(schema: Any, names: Mapping[str, str]) -> Any:
    """Return a copy of a schema in which references have other names."""
    if isinstance(schema, list):
        return [with_references(part, names) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    copy: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword == "$ref" and isinstance(value, str):
            copy[keyword] = names.get(value, value)
        elif keyword in _MAPS and isinstance(value, Mapping):
            copy[keyword] = {name: with_references(part, names) for name, part in value.items()}
        else:
            copy[keyword] = value if keyword in _NO_SCHEMAS else with_references(value, names)
    return copy
