"""The JSON Schema that a class declares for the specs of its tasks, and the check of specs against
it.

A class declares `task_schema`, a pydantic model or a JSON Schema (or a class method that returns
one). Sync stores it as text; curation and imports check specs against that text. A schema that
refers to an external document never makes this server fetch it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import jsonschema
from jsonschema.protocols import Validator
from jsonschema_specifications import REGISTRY as DRAFTS  # type: ignore[import-untyped]
from referencing.exceptions import Unresolvable

from environments.authoring.declarations import plain_schema
from environments.authoring.hosted_environment import HostedEnvironment
from environments.authoring.input_check import MAX_PROBLEM_CHARACTERS, problem_text
from environments.display.schema_fields import kind_of, resolved
from environments.errors import Unhostable, explained, shorten

MAX_PROBLEMS = 20
"""Problems reported for one spec; those beyond it show up once these are repaired."""
_MAX_VALUE_CHARACTERS = 80
"""Longest part of a value in a message that also says what was expected instead."""


@dataclass(frozen=True, slots=True)
class SchemaProblem:
    """One thing that is wrong with a spec."""

    parts: tuple[str | int, ...]
    """Path to the wrong value: names and indexes, outermost first; empty for the whole spec."""
    message: str
    """What is wrong, with the refused value and what is allowed; without a full stop."""

    @property
    def path(self) -> str:
        """The path as text, such as `$.tests[2].input`; `$` is the whole spec."""
        return "$" + "".join(
            f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.parts
        )

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def declared(hosted: HostedEnvironment) -> str:
    """Return the task schema of the class as JSON text; empty if it declares none. Raises:
    Unhostable."""
    schema = hosted.declared("task_schema", None)
    if schema is None:
        return ""
    try:
        return _text(schema)
    except Unhostable:
        raise
    except jsonschema.SchemaError as error:
        problem = SchemaProblem(
            tuple(error.absolute_path), problem_text(error.message, error.instance)
        )
        raise Unhostable(f"{hosted.name}: task_schema is not a JSON Schema ({problem}).") from error
    except (Exception, SystemExit) as error:  # a method or a model of the author's
        raise Unhostable(
            f"{hosted.name}: task_schema cannot be read: {explained(error)}."
        ) from error


def _text(schema: Any) -> str:
    text = json.dumps(plain_schema(schema), allow_nan=False)
    if unresolved := [
        problem.message for problem in check(text, {}) if "refers to" in problem.message
    ]:
        raise ValueError(unresolved[0])
    return text


def check(schema: str, spec: Any) -> list[SchemaProblem]:
    """Return the problems of `spec` (parsed JSON) under `schema` (JSON text), in the order of the
    spec.

    Empty when the spec is valid, or when the schema is empty.

    Raises: jsonschema.SchemaError when `schema` is not a JSON Schema, which sync never stores.
    """
    if not schema:
        return []
    found: list[SchemaProblem] = []
    try:
        for error in _leaves(_validator(schema).iter_errors(spec)):
            found.append(
                SchemaProblem(tuple(map(_visible, error.absolute_path)), _message(error, schema))
            )
            if len(found) == MAX_PROBLEMS:
                break
    except Unresolvable as error:
        found.append(
            SchemaProblem(
                (),
                f"the task schema refers to {error.ref!r}, which it does not "
                "contain; correct the class",
            )
        )
    except RecursionError:
        found.append(SchemaProblem((), "it is nested too deeply for the task schema; flatten it"))
    return found


def _visible(part: str | int) -> str | int:
    """Return a name or index that a page or a terminal can show: control characters such as NUL
    become escapes."""
    return part if isinstance(part, int) or part.isprintable() else ascii(part)[1:-1]


@lru_cache(maxsize=64)
def _validator(schema: str) -> Validator:
    value = json.loads(schema)
    cls = jsonschema.validators.validator_for(value, default=jsonschema.Draft202012Validator)
    cls.check_schema(value)
    return cls(value, registry=DRAFTS)  # this registry cannot retrieve other documents


def _message(error: jsonschema.ValidationError, schema: str) -> str:
    """Return jsonschema's message; for an `anyOf` or `oneOf` without a matching choice, a list of
    what was expected."""
    if error.validator not in ("anyOf", "oneOf") or not error.context:
        return problem_text(error.message, error.instance)
    root, choices = json.loads(schema), cast(list[Any], error.validator_value)
    kinds = [_choice(choice, root) for choice in choices if isinstance(choice, dict)]
    value = shorten(repr(error.instance), _MAX_VALUE_CHARACTERS)
    return shorten(
        f"{value} was given; expected is {' or '.join(dict.fromkeys(kinds))}",
        MAX_PROBLEM_CHARACTERS,
    )


def _choice(schema: dict[str, Any], root: dict[str, Any]) -> str:
    kind, needed = kind_of(schema, root), resolved(schema, root).get("required")
    return (
        f"{kind} with {', '.join(map(repr, needed))}"
        if isinstance(needed, list) and needed
        else kind
    )


def _leaves(errors: Iterator[jsonschema.ValidationError]) -> Iterator[jsonschema.ValidationError]:
    """Yield the errors, but replace an error about an `anyOf` or `oneOf` by what is wrong with the
    closest choice."""
    for error in errors:
        yield jsonschema.exceptions.best_match([error])
