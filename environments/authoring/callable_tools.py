"""Tools in the form that the APIs of model providers accept: the root of an input schema, and names.

Documented rules (OpenAI's function calling, Anthropic's tool use, Google's function calling, MCP's `inputSchema`): the
root of a schema is of type object; OpenAI and Anthropic allow no anyOf, oneOf or allOf there, OpenAI neither enum nor
not. A name has up to 64 letters, digits, `_` and `-`; Google's starts with a letter or `_`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

Schema = dict[str, Any]

CALLABLE_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
NO_PARAMETERS: Schema = {"type": "object", "properties": {}}
_REFUSED = re.compile(r"[^a-zA-Z0-9_-]")
_DIGEST_CHARACTERS = 8
_REPLACED = re.compile(rf"-[0-9a-f]{{{_DIGEST_CHARACTERS}}}\Z")
_UNIONS = ("anyOf", "oneOf", "allOf")
_NOT_AT_ROOT = frozenset((*_UNIONS, "$ref", "enum", "const", "not", "discriminator"))
_MAX_LEVELS = 8
"""Levels of unions and references at the root that are merged; a recursive one never ends."""


def callable_name(name: str, *, needs_letter: bool = False) -> str:
    """Return the name as providers accept it: itself, or else with a digest that tells it from all others.

    needs_letter: whether it has to start with a letter or `_`.
    """
    is_start_accepted = not needs_letter or not re.match(r"[0-9-]", name)
    if CALLABLE_NAME.fullmatch(name) and is_start_accepted:
        return name
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_CHARACTERS // 2).hexdigest()
    start = _REFUSED.sub("_", name if is_start_accepted else f"_{name}")
    return f"{start[: 63 - _DIGEST_CHARACTERS]}-{digest}"


def is_replaced(name: str) -> bool:
    """Return whether a name may stand for another, by the digest at its end."""
    return bool(_REPLACED.search(name))


def tool_called(name: str, tools: Iterable[str]) -> str:
    """Return which of `tools` a client means by a name of `callable_name`; the name itself if it is none of them."""
    return {callable_name(tool): tool for tool in tools}.get(name, name)


def tool_names(listing: Mapping[str, Any]) -> list[str]:
    """Return the names of the tools in a ListToolsOutput, the terminal tool's among them."""
    ending = listing.get("terminal_tool")
    return [tool["name"] for tool in [*listing["tools"], *([ending] if ending else [])]]


def uncallable_names(names: Iterable[str]) -> list[str]:
    """Return a sentence for each name that the APIs of models refuse."""
    return [
        f"Tool name {name!r} is not accepted by the APIs of models; use up to 64 letters, digits, '_' and '-'."
        for name in names
        if not CALLABLE_NAME.fullmatch(name)
    ]


def has_object_root(schema: Mapping[str, Any]) -> bool:
    """Return whether all of these APIs accept the root of a schema."""
    return schema.get("type") == "object" and not schema.keys() & _NOT_AT_ROOT


def is_of_objects(schema: Mapping[str, Any]) -> bool:
    """Return whether the root of a schema says, or leaves to its branches, that the input is an object."""
    return schema.get("type") == "object" or ("type" not in schema and bool(schema.keys() & _NOT_AT_ROOT))


def object_schema(schema: Mapping[str, Any]) -> Schema:
    """Return the schema with an object at its root, which says type, properties and required there.

    A reference is resolved. Of alternatives, the object has the properties of all, and requires those that all require;
    the tool itself refuses what fits none of them.
    """
    if has_object_root(schema):
        return dict(schema)
    flat = _flat(schema, schema, _MAX_LEVELS)
    return {**NO_PARAMETERS, **flat, "type": "object"}


def _flat(part: Any, root: Mapping[str, Any], levels: int) -> Schema:
    """Return a part of the root without references and unions."""
    if not isinstance(part, Mapping) or not levels:
        return {}
    flat = _target(part.get("$ref"), root, levels)
    for each in _list(part.get("allOf")):
        flat = _both(flat, _flat(each, root, levels - 1))
    for union in ("anyOf", "oneOf"):
        branches = [_flat(branch, root, levels - 1) for branch in _list(part.get(union))]
        objects = [branch for branch in branches if "object" in _list(branch.get("type", "object"))]
        flat = _both(flat, _either(objects)) if objects else flat
    own = {key: value for key, value in part.items() if key not in _NOT_AT_ROOT}
    return _both(flat, own)


def _target(reference: Any, root: Mapping[str, Any], levels: int) -> Schema:
    """Return what a reference within the schema refers to; nothing for any other."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return {}
    target: Any = root
    for name in reference[1:].split("/")[1:]:
        target = target.get(name.replace("~1", "/").replace("~0", "~")) if isinstance(target, Mapping) else None
    return _flat(target, root, levels - 1)


def _both(first: Schema, second: Schema) -> Schema:
    """Return an object that fits both."""
    merged = {**first, **second}
    properties = [_mapping(first.get("properties")), _mapping(second.get("properties"))]
    if any(properties):
        shared = {
            name: {"allOf": [properties[0][name], properties[1][name]]}
            for name in properties[0].keys() & properties[1].keys()
            if properties[0][name] != properties[1][name]
        }
        merged["properties"] = {**properties[0], **properties[1], **shared}
    if required := dict.fromkeys([*_list(first.get("required")), *_list(second.get("required"))]):
        merged["required"] = list(required)
    return merged


def _either(branches: Sequence[Schema]) -> Schema:
    """Return an object with the properties of all branches."""
    if len(branches) == 1:
        return branches[0]
    forms: dict[str, list[Any]] = {}
    for branch in branches:
        for name, form in _mapping(branch.get("properties")).items():
            if form not in forms.setdefault(name, []):
                forms[name].append(form)
    required = [name for name in forms if all(name in _list(branch.get("required")) for branch in branches)]
    merged: Schema = {"properties": {name: _any_of(forms[name]) for name in forms}}
    if required:
        merged["required"] = required
    if all(branch.get("additionalProperties") is False for branch in branches):
        merged["additionalProperties"] = False
    return merged


def _any_of(forms: Sequence[Any]) -> Any:
    if len(forms) == 1:
        return forms[0]
    if not all(isinstance(form, Mapping) and ("const" in form or "enum" in form) for form in forms):
        return {"anyOf": list(forms)}
    # what tells the alternatives apart: converters of providers keep an enum whole, and one branch of a union
    values = [value for form in forms for value in (_list(form["enum"]) if "enum" in form else [form["const"]])]
    types = {form.get("type") for form in forms}
    return {"enum": values} | ({"type": kind} if len(types) == 1 and (kind := types.pop()) else {})


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if isinstance(value, str) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
