"""The fields of an environment's tasks that a search can test: those of its task schema, and those
that tasks have.

Only numbers, texts, true, false and null, in the content itself or in objects within it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models.functions import Left

from environments.curation.task_search import LITERALS, FieldTest
from environments.display.schema_fields import resolved
from environments.display.task_line import MAX_READ_CHARACTERS
from environments.errors import nearest
from environments.models import Environment, Task
from environments.models.folding import fold

MAX_READ_TASKS = 20
"""Newest tasks whose fields are read; a longer content than MAX_READ_CHARACTERS is left out."""
MAX_DEPTH = 3
MAX_NAMED = 12
"""Fields that a message names."""
_KINDS = {
    "string": "text",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
}
_ARTICLES = {"text": "a text", "number": "a number", "boolean": "true or false", "null": "null"}
_TYPES: dict[type, str] = {str: "text", int: "number", float: "number", bool: "boolean"}


@dataclass(frozen=True, slots=True)
class ScalarField:
    name: str
    """Names joined by dots."""
    kinds: tuple[str, ...] = ()
    """Of `text`, `number`, `boolean` and `null`; empty: the schema does not say."""
    choices: tuple[str, ...] = ()
    """All values that the schema allows; empty: it does not list them."""


def scalar_fields(environment: Environment) -> dict[str, ScalarField]:
    """Return the fields by name, those of the schema first."""
    schema = _object(environment.task_schema)
    fields = {field.name: field for field in _declared(schema, schema, "", MAX_DEPTH)}
    newest = (
        Task.objects.filter(environment=environment)
        .order_by("-pk")
        .annotate(head=Left("spec", MAX_READ_CHARACTERS + 1))
    )
    for head in newest.values_list("head", flat=True)[:MAX_READ_TASKS]:
        for name in (
            _names(_object(head), "", MAX_DEPTH) if len(head) <= MAX_READ_CHARACTERS else ()
        ):
            fields.setdefault(name, ScalarField(name))
    return fields


def problem_of(test: FieldTest, environment: Environment) -> str:
    """Return what is wrong with a test and what is allowed, as the end of a sentence; empty if
    nothing is."""
    fields = scalar_fields(environment)
    if not fields:
        return ""
    if (field := fields.get(test.name)) is None:
        names = ", ".join(list(fields)[:MAX_NAMED]) + (
            " and more" if len(fields) > MAX_NAMED else ""
        )
        return (
            f"tasks of {environment.name!r} have no such field; they have "
            f"{names}.{nearest(test.name, fields)} "
            "In double quotes it is searched for as a text"
        )
    if test.operator == "~" and field.kinds and "text" not in field.kinds:
        return f"{test.name} is {_kinds(field)}, and ~ searches in texts"
    if test.is_order and field.kinds and "number" not in field.kinds:
        return f"{test.name} is {_kinds(field)}, and {test.operator} compares numbers"
    return _wrong_value(test, field) if test.operator == ":" else ""


def _wrong_value(test: FieldTest, field: ScalarField) -> str:
    if field.choices:
        is_known = fold(test.value) in map(fold, field.choices)
        return "" if is_known else f"{test.name} is one of {', '.join(field.choices[:MAX_NAMED])}"
    own = {"text"} if test.number is None else {"text", "number"}
    if not test.is_text and test.value in LITERALS:
        own.add("null" if test.value == "null" else "boolean")
    return f"{test.name} is {_kinds(field)}" if field.kinds and not own & set(field.kinds) else ""


def _kinds(field: ScalarField) -> str:
    return " or ".join(_ARTICLES[kind] for kind in field.kinds)


def _declared(
    schema: dict[str, Any], root: dict[str, Any], prefix: str, depth: int
) -> Iterator[ScalarField]:
    members = resolved(schema, root).get("properties")
    for name, member in members.items() if isinstance(members, dict) and depth else ():
        if not isinstance(member, dict):
            continue
        inner, path = resolved(member, root), f"{prefix}{name}"
        yield from _declared(inner, root, f"{path}.", depth - 1)
        if (field := _scalar(path, inner, root)) is not None:
            yield field


def _scalar(path: str, schema: dict[str, Any], root: dict[str, Any]) -> ScalarField | None:
    """Return the field if its schema allows a scalar; without any type it may be one."""
    branches = [
        resolved(option, root)
        for option in schema.get("anyOf", schema.get("oneOf", [schema]))
        if isinstance(option, dict)
    ]
    types, choices, is_listed = list[str](), list[str](), True
    for branch in branches:
        values = branch.get("enum", [branch["const"]] if "const" in branch else None)
        choices += [
            value if isinstance(value, str) else json.dumps(value) for value in values or ()
        ]
        is_listed &= values is not None
        type_names = branch.get("type", [])
        types += [type_names] if isinstance(type_names, str) else type_names
        types += (
            [_TYPES.get(type(value), "null") for value in values or ()] if not type_names else []
        )
    kinds = dict.fromkeys(_KINDS.get(option, option) for option in types)
    scalars = tuple(kind for kind in kinds if kind in _ARTICLES)
    if types and not scalars:
        return None
    return ScalarField(path, scalars, tuple(choices) if is_listed else ())


def _names(value: dict[str, Any], prefix: str, depth: int) -> Iterator[str]:
    for name, member in value.items():
        if isinstance(member, dict) and depth > 1:
            yield from _names(member, f"{prefix}{name}.", depth - 1)
        elif not isinstance(member, dict | list):
            yield f"{prefix}{name}"


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
