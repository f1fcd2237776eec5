"""The check of a tool's input against the JSON Schema with which its author declares it, without a
pydantic model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from environments.errors import Unhostable, explained, shorten
from environments.wire import JSONObject

MAX_PROBLEMS = 10
"""Most problems of one input that a message lists."""
MAX_PROBLEM_CHARACTERS = 300


def problem_text(message: str, value: Any) -> str:
    """Return jsonschema's message about `value` in at most MAX_PROBLEM_CHARACTERS.

    It begins with the value. A long one is left out: it would hide the reason, and half a secret is
    not masked.
    """
    if len(message) > MAX_PROBLEM_CHARACTERS:
        message = message.replace(repr(value), "the value", 1)
    return shorten(message, MAX_PROBLEM_CHARACTERS)


class InputCheck:
    """A JSON Schema and the validator that was made of it, which never fetches what the schema
    refers to."""

    __slots__ = ("_validator", "schema")

    def __init__(self, label: str, schema: Mapping[str, Any]) -> None:
        """`label` names the tool in messages. Raises: Unhostable."""
        # late: few classes have such tools
        from jsonschema import Draft202012Validator, SchemaError, validators
        from referencing.jsonschema import EMPTY_REGISTRY

        try:
            self.schema: dict[str, Any] = json.loads(json.dumps(schema))
            kind = validators.validator_for(self.schema, default=Draft202012Validator)
            kind.check_schema(self.schema)
        except SchemaError as error:
            raise Unhostable(
                f"{label}: input_schema is not a JSON Schema: {error.message}."
            ) from error
        except (TypeError, ValueError, AttributeError) as error:
            raise Unhostable(
                f"{label}: input_schema is not a JSON object: {explained(error)}."
            ) from error
        if self.schema.get("type") != "object":
            raise Unhostable(
                f"{label}: input_schema has the type {self.schema.get('type')!r}; it "
                "has to be 'object'."
            )
        self._validator = kind(self.schema, registry=EMPTY_REGISTRY)

    def problem(self, arguments: JSONObject) -> str:
        """Return what is wrong with an input, as a sentence; empty if the schema allows it."""
        errors = sorted(self._validator.iter_errors(arguments), key=lambda error: str(error.path))
        if not errors:
            return ""
        problems = [
            f"{error.json_path}: {problem_text(error.message, error.instance)}"
            for error in errors[:MAX_PROBLEMS]
        ]
        if len(errors) > MAX_PROBLEMS:
            problems.append(f"{len(errors) - MAX_PROBLEMS} more")
        return f"Tool input validation error: {'; '.join(problems)}"
