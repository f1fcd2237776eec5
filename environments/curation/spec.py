"""Spec: the JSON text of a task that people wrote, checked before it becomes one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

from environments.curation.errors import InvalidSpec, Problem
from environments.errors import shorten
from environments.models import Environment
from environments.wire import object_json

MOST_PROBLEMS = 20
MOST_CHARACTERS = 300
"""Of one message: the schema's own may repeat the whole value."""
_KINDS: dict[type, str] = {list: "a list", str: "a string", bool: "true or false", type(None): "null"}


def checked_spec(environment: Environment, text: str) -> str:
    """`text` as it will be stored, compact. Raises: InvalidSpec with the problems found, MOST_PROBLEMS at most."""
    stored = _strict(text)
    if problems := tuple(schema_problems(environment.task_schema, json.loads(stored))):
        raise InvalidSpec(problems)
    return stored


def schema_problems(schema: str, spec: Any) -> Iterator[Problem]:
    """What the JSON Schema finds wrong, in the spec's order, MOST_PROBLEMS at most; nothing without a schema."""
    if not schema:
        return
    declared = json.loads(schema)
    # an empty registry: references to other documents are never fetched
    validator = validator_for(declared, default=Draft202012Validator)(declared, registry=Registry())
    try:
        yield from map(_problem, _first(validator.iter_errors(spec)))
    except Unresolvable as error:
        yield Problem("", f"the task schema refers to {error.ref!r}, which is not in it; correct the class")
    except RecursionError:
        yield Problem("", "it is nested too deeply for the task schema; flatten it")


def _first(errors: Iterable[ValidationError]) -> list[ValidationError]:
    return [error for _, error in zip(range(MOST_PROBLEMS), errors, strict=False)]


def _problem(error: ValidationError) -> Problem:
    return Problem(".".join(map(str, error.absolute_path)), shorten(error.message, MOST_CHARACTERS))


def _strict(text: str) -> str:
    try:
        value = json.loads(text, object_pairs_hook=_distinct, parse_constant=_refuse)
        if isinstance(value, dict):
            return object_json(value)
    except json.JSONDecodeError as error:
        raise _invalid(f"line {error.lineno}, column {error.colno}: {error.msg}") from error
    except RecursionError as error:
        raise _invalid("it is nested too deeply; flatten it") from error
    except ValueError as error:
        raise _invalid(str(error)) from error
    raise _invalid(f"it is {_KINDS.get(type(value), 'a number')}, and a task is an object, as {{…}}")


def _invalid(message: str) -> InvalidSpec:
    return InvalidSpec((Problem("", shorten(message, MOST_CHARACTERS)),))


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"the name {shorten(name, 80)!r} stands twice in one object; keep one of them")
        members[name] = value
    return members


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON number; use a finite number, null or a string")
