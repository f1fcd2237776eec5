"""Rewrites a JSON Schema so that all readers follow it: each reference is a `$ref` to its root or to
a definition.

Providers and clients know neither documents within a schema nor dynamic references, and converters
drop branches to which a pointer may lead. Source: JSON Schema Core 2020-12, sections 8.2 and 9.2;
2019-09, section 8.2.4.2.

A part with an `$id` is a document of its own, which others name by that: references in it are to its
parts. Dynamic and recursive references are read as plain ones.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from environments.errors import shorten
from environments.schemas.schema_references import (
    NO_SCHEMAS,
    SCHEMA_MAPS,
    References,
    members_of,
    missing,
)

_SHOWN_CHARACTERS = 60
_PORTABLE = re.compile(r"#(/(\$defs|definitions)/[^/]+)?")
_PLAIN, _NOT_PLAIN = re.compile(r"[a-zA-Z0-9_-]+"), re.compile(r"[^a-zA-Z0-9_-]+")
_REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_OF_A_DOCUMENT = frozenset({"$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"})


def portable(schema: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[str]]:
    """Return the schema, and what is wrong with it. A reference that leads nowhere is left out."""
    document = _Document(schema)
    problems = list(dict.fromkeys(document.problems))
    return (document.copy() if document.is_changed else schema), problems


class _Document:
    """A schema whose references were followed."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.problems: list[str] = []
        self.is_changed = False
        self._root, self._root_document = root, References(root)
        self._documents: dict[int, References] = {}
        """The document of each part, which is known by its identity."""
        self._named: dict[str, References] = {}
        """Documents by their `$id`."""
        parts: list[Mapping[str, Any]] = []
        for part, document in _parts(root, self._root_document):
            if id(part) not in self._documents:
                parts.append(part)
                self._documents[id(part)] = document
                if isinstance(name := part.get("$id"), str):
                    self._named.setdefault(name.removesuffix("#"), document)
                self.is_changed |= part is not root and not part.keys().isdisjoint(_OF_A_DOCUMENT)
        self._targets = {id(part): self._targets_of(part) for part in parts}
        for part in parts:
            self._check_required(part)
        own = root.get("$defs")
        self._definitions: dict[str, Any] = dict(own) if isinstance(own, Mapping) else {}

    def _check_required(self, part: Mapping[str, Any]) -> None:
        if "required" in part and part["required"] != names_in(part["required"]):
            self.is_changed = True
            counts = Counter(name for name in _list(part["required"]) if isinstance(name, str))
            if counts and (most := counts.most_common(1)[0])[1] > 1:
                self.problems.append(
                    f"'required' has {shorten(repr(most[0]), _SHOWN_CHARACTERS)} twice"
                )
            else:
                value = shorten(repr(part["required"]), _SHOWN_CHARACTERS)
                self.problems.append(f"'required' is {value}, which is no list of names")

    def _targets_of(self, part: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """Return the references of a part, each with what it points at. One that leads nowhere is a
        problem."""
        targets = []
        for keyword in [keyword for keyword in part if keyword in _REFERENCES]:
            reference = part[keyword]
            try:
                target = self._target(reference, self._documents[id(part)])
                targets.append((reference, target))
                self.is_changed |= keyword != "$ref" or not self._is_portable(reference, target)
            except LookupError as error:
                self.problems.append(str(error.args[0]))
                self.is_changed = True
        return targets

    def _target(self, reference: Any, document: References) -> Any:
        """Return the part at a reference in a document. Raises: LookupError."""
        if not isinstance(reference, str):
            raise missing(reference)
        name, _, fragment = reference.partition("#")
        if name and name not in self._named:
            raise missing(reference)
        target = (self._named[name] if name else document).target(f"#{fragment}")
        if not isinstance(target, bool) and id(target) not in self._documents:
            raise missing(reference)
        return target

    def _is_portable(self, reference: str, target: Any) -> bool:
        """Return whether a reference means the same at any place of the schema."""
        if not (match := _PORTABLE.fullmatch(reference)):
            return False
        if match[2] and not isinstance(self._root.get(match[2]), Mapping):
            return False
        try:
            return self._root_document.target(reference) is target
        except LookupError:
            return False

    # --- the copy

    def copy(self) -> Mapping[str, Any]:
        self._pointed = {
            id(part): reference for targets in self._targets.values() for reference, part in targets
        }
        self._names = {
            id(part): f"#/$defs/{name}"
            for name, part in self._definitions.items()
            if _PLAIN.fullmatch(name)
        }
        self._names[id(self._root)] = "#"
        self._waiting: list[tuple[str, Any]] = []
        copy: dict[str, Any] = self._copy_part(self._root)
        definitions = {}
        while self._waiting:
            name, part = self._waiting.pop()
            definitions[name] = self._copy_part(part, part)
        if definitions:
            own = copy.get("$defs")
            copy["$defs"] = {**own, **definitions} if isinstance(own, Mapping) else definitions
        return copy

    def _copy_part(self, value: Any, definition: Any = None) -> Any:
        """Return a copy of a part. `definition`: the one that it is copied into; None for the
        schema itself."""
        if isinstance(value, list):
            return [self._copy_part(part, definition) for part in value]
        if not isinstance(value, Mapping):
            return value
        if definition is not None and value is not definition and id(value) in self._pointed:
            # so that no part is in two definitions
            return self._reference(self._pointed[id(value)], value)
        left_out = _REFERENCES | _OF_A_DOCUMENT
        if value is self._root:
            left_out -= {"$id"}
        copy: dict[str, Any] = {}
        for keyword, inner in value.items():
            if keyword == "required":
                copy[keyword] = names_in(inner)
            elif keyword in SCHEMA_MAPS and isinstance(inner, Mapping):
                copy[keyword] = {
                    name: self._copy_part(part, definition) for name, part in inner.items()
                }
            elif keyword not in left_out:
                copy[keyword] = (
                    inner if keyword in NO_SCHEMAS else self._copy_part(inner, definition)
                )
        forms = [self._reference(*target) for target in self._targets.get(id(value), ())]
        if len(forms) == 1:
            return {**forms[0], **copy}
        return {**copy, "allOf": [*_list(copy.get("allOf")), *forms]} if forms else copy

    def _reference(self, reference: str, target: Any) -> dict[str, Any]:
        """Return the reference as it is in the copy, in which it is to the root or to a
        definition."""
        if isinstance(target, bool):
            return {} if target else {"not": {}}
        if self._is_portable(reference, target):
            return {"$ref": reference}
        if id(target) not in self._names:
            name = _NOT_PLAIN.sub("_", reference).strip("_") or "root"
            while name in self._definitions:
                name += "_"
            self._definitions[name] = target
            self._names[id(target)] = f"#/$defs/{name}"
            self._waiting.append((name, target))
        return {"$ref": self._names[id(target)]}


def names_in(value: Any) -> list[str]:
    """Return the distinct names of `required`, whatever it is."""
    names = [value] if isinstance(value, str) else _list(value)
    return list(dict.fromkeys(name for name in names if isinstance(name, str)))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _parts(root: Any, document: References) -> Iterator[tuple[Mapping[str, Any], References]]:
    """Yield all parts of a schema, each after the one around it and with its document."""
    waiting: list[tuple[Any, References]] = [(root, document)]
    while waiting:
        part, document = waiting.pop()
        if isinstance(part, list):
            waiting += [(each, document) for each in part]
        elif isinstance(part, Mapping):
            name = part.get("$id")
            if part is not root and isinstance(name, str) and not name.startswith("#"):
                document = References(part)
            yield part, document
            waiting += [(each, document) for each in members_of(part)]
