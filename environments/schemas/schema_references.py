"""References within a JSON Schema (`$ref`): what they point at, and which a schema has. Needs no
other document."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any
from urllib.parse import unquote

from environments.errors import shorten

_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
NO_SCHEMAS = frozenset({"const", "enum", "default", "example", "examples", "required"})
SCHEMA_MAPS = frozenset(
    {"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"}
)
"""Keywords whose value has a schema at each name."""


def missing(reference: Any) -> LookupError:
    return LookupError(f"it refers to {shorten(repr(reference), 100)}, which it does not contain")


class References:
    """The references of one schema."""

    def __init__(self, root: Any) -> None:
        self._root = root

    def target(self, reference: Any) -> Any:
        """Return the part of the schema at a reference: a JSON pointer (RFC 6901, section 6), or an
        anchor.

        Raises: LookupError for a part that the schema does not have, and for another document.
        """
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise missing(reference)
        pointer, target = unquote(reference[1:]), self._root
        if pointer and not pointer.startswith("/"):
            if pointer not in self._anchors:
                raise missing(reference)
            return self._anchors[pointer]
        for part in pointer.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(target, Mapping) and name in target:
                target = target[name]
            elif isinstance(target, list) and _INDEX.fullmatch(name) and int(name) < len(target):
                target = target[int(name)]
            else:
                raise missing(reference)
        return target

    @cached_property
    def _anchors(self) -> dict[str, Any]:
        names = (
            (part.get(keyword), part)
            for part in parts_of(self._root)
            for keyword in ("$anchor", "$dynamicAnchor", "$id")
            if keyword != "$id" or str(part.get(keyword)).startswith("#")
        )
        return {name.removeprefix("#"): part for name, part in names if isinstance(name, str)}


def parts_of(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Yield a schema and all schemas in it, those that are true or false left out."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, Mapping):
            yield part
            waiting += members_of(part)


def members_of(part: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the values in a schema that are, or hold, schemas."""
    for keyword, value in part.items():
        if keyword in SCHEMA_MAPS and isinstance(value, Mapping):
            yield from value.values()
        elif keyword not in NO_SCHEMAS:
            yield value
