"""The fields of an environment's tasks that a search can test: those of its task schema, and those
that tasks have.

Only numbers, texts, true, false and null, in the content itself or in objects within it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from django.db.models.functions import Left

from environments.curation.task_search import FieldTest
from environments.display.schema_fields import resolved
from environments.display.task_line import MAX_READ_CHARACTERS
from environments.errors import nearest
from environments.models import Environment, Task

MAX_READ_TASKS = 20
"""Newest tasks whose fields are read; a longer content than MAX_READ_CHARACTERS is left out."""
MAX_DEPTH = 3
MAX_NAMED = 12
"""Fields that a message names."""


def field_names(environment: Environment) -> list[str]:
    """Return the names of the fields, joined by dots, those of the schema first."""
    schema = _object(environment.task_schema)
    names = dict.fromkeys(_declared(schema, schema, "", MAX_DEPTH))
    newest = (
        Task.objects.filter(environment=environment)
        .order_by("-pk")
        .annotate(head=Left("spec", MAX_READ_CHARACTERS + 1))
    )
    for head in newest.values_list("head", flat=True)[:MAX_READ_TASKS]:
        if len(head) <= MAX_READ_CHARACTERS:
            names |= dict.fromkeys(_names(_object(head), "", MAX_DEPTH))
    return list(names)


def problem_of(test: FieldTest, environment: Environment) -> str:
    """Return that tasks have no field of that name, and which they have, as the end of a sentence;
    empty if they have it."""
    names = field_names(environment)
    if test.name in names or not names:
        return ""
    more = " and more" if len(names) > MAX_NAMED else ""
    return (
        f"tasks of {environment.name!r} have no such field; they have "
        f"{', '.join(names[:MAX_NAMED])}{more}.{nearest(test.name, names)} "
        "In double quotes it is searched for as a text"
    )


def _declared(
    schema: dict[str, Any], root: dict[str, Any], prefix: str, depth: int
) -> Iterator[str]:
    members = resolved(schema, root).get("properties")
    for name, member in members.items() if isinstance(members, dict) and depth else ():
        if isinstance(member, dict):
            inner = resolved(member, root)
            yield from _declared(inner, root, f"{prefix}{name}.", depth - 1)
            if inner.get("type") not in ("array", "object"):
                yield f"{prefix}{name}"


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
