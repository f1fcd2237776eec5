"""The JSON Schema that a class declares for the specs of its tasks, and the check of specs against
it.

A class declares `task_schema`, a pydantic model or a JSON Schema (or a class method that returns
one). Sync stores it as text; curation and imports check specs against that text. A schema that
refers to an external document never makes this server fetch it.
"""

from __future__ import annotations

import json
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
"""Most problems reported for one spec; further ones appear once these are repaired."""
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


def schema_json(environment: HostedEnvironment) -> str:
    """Return the task schema of the class as JSON text; empty if it declares none. Its member
    `x-summary` is the class's `title_field`. Raises: Unhostable."""
    schema = environment.declared("task_schema", None)
    title_field = environment.declared("title_field", "")
    if schema is None and not title_field:
        return ""
    try:
        members = plain_schema(schema) if schema is not None else {}
        if title_field:
            members = {**members, "x-summary": title_field}
        text = json.dumps(members, allow_nan=False)
        for problem in check(text, {}):
            if "refers to" in problem.message:
                raise ValueError(problem.message)
        return text
    except Unhostable:
        raise
    except jsonschema.SchemaError as error:
        problem = SchemaProblem(
            tuple(error.absolute_path), problem_text(error.message, error.instance)
        )
        raise Unhostable(
            f"{environment.name}: task_schema is not a JSON Schema ({problem})."
        ) from error
    except (Exception, SystemExit) as error:  # a method or a model of the author's
        raise Unhostable(
            f"{environment.name}: task_schema cannot be read: {explained(error)}."
        ) from error


def check(schema: str, spec: Any) -> list[SchemaProblem]:
    """Return what is wrong with `spec` (parsed JSON) by `schema` (JSON text), in the spec's order.

    Empty if the spec is valid, or the schema empty.

    Raises: jsonschema.SchemaError if `schema` is not a JSON Schema, which sync never stores.
    """
    if not schema:
        return []
    problems: list[SchemaProblem] = []
    try:
        for error in _validator(schema).iter_errors(spec):
            # of an anyOf or oneOf: what is wrong with the choice that fits best
            leaf = jsonschema.exceptions.best_match([error])
            path = tuple(map(_visible, leaf.absolute_path))
            problems.append(SchemaProblem(path, _message(leaf, schema)))
            if len(problems) == MAX_PROBLEMS:
                break
    except Unresolvable as error:
        problems.append(
            SchemaProblem(
                (),
                f"the task schema refers to {error.ref!r}, which it does not "
                "contain; correct the class",
            )
        )
    except RecursionError:
        problems.append(
            SchemaProblem((), "it is nested too deeply for the task schema; flatten it")
        )
    return problems


def _visible(part: str | int) -> str | int:
    """Return a name or index with control characters such as NUL as escapes."""
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
    root = json.loads(schema)
    kinds: dict[str, None] = {}
    for choice in cast(list[Any], error.validator_value):
        if isinstance(choice, dict):
            kind, names = kind_of(choice, root), resolved(choice, root).get("required")
            if isinstance(names, list) and names:
                kind += f" with {', '.join(map(repr, names))}"
            kinds[kind] = None
    value = shorten(repr(error.instance), _MAX_VALUE_CHARACTERS)
    return shorten(f"{value} was given; expected is {' or '.join(kinds)}", MAX_PROBLEM_CHARACTERS)
