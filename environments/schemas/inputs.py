"""Tool inputs made from JSON Schemas, valid ones to play with and invalid ones that have to be
refused, and the sequence of tool calls of a generated episode.

The generator knows what pydantic and people write: enum, const, bounds, simple patterns and
formats, arrays, objects, nullable, anyOf, oneOf, allOf and local $ref. Every input is checked with
jsonschema before it is used, and the same seed makes the same inputs.
docs/decisions/0019-libraries.md compares it with hypothesis-jsonschema.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from random import Random
from typing import Any

import jsonschema
from referencing.exceptions import Unresolvable
from referencing.jsonschema import EMPTY_REGISTRY

from environments.schemas.input_texts import SEEN_SHARE, Seen, text_for
from environments.schemas.schema_references import References

MAX_TRIES = 30
MAX_DEPTH = 6
"""Nesting from which optional members and items are left out, so that recursive schemas end."""
EXAMPLES_SHARE, DEFAULT_SHARE = 0.7, 0.2
"""Shares of the values that are taken from a schema's examples, which its model accepts, and from
its default."""
_KEYWORDS = {"properties": "object", "items": "array", "minimum": "number", "maximum": "number"}
"""Keywords that say what a schema without a type describes."""
_TYPES = ["string", "integer", "number", "boolean", "null", "array", "object"]


class Unproducible(Exception):
    """No input could be made for a schema; the message says why."""


class Inputs:
    """Inputs of one tool, which takes none if `schema` is None. `seen` is read for each input, so
    it may grow."""

    def __init__(
        self, schema: Mapping[str, Any] | None, random: Random, observations: Seen | None = None
    ) -> None:
        """Raises: Unproducible when `schema` is not a JSON Schema."""
        self._schema: dict[str, Any] = dict(schema or {"type": "object", "properties": {}})
        self._random, self._seen = random, observations or Seen()
        try:
            cls = jsonschema.validators.validator_for(
                self._schema, default=jsonschema.Draft202012Validator
            )
            cls.check_schema(self._schema)
        except jsonschema.SchemaError as error:
            raise Unproducible(f"it is not a JSON Schema: {error.message}") from error
        # the registry never fetches a schema
        self._validator = cls(self._schema, registry=EMPTY_REGISTRY)

    def valid(self) -> dict[str, Any]:
        """Return an object that the schema allows. Raises: Unproducible."""
        reason = "none of the generated objects is allowed"
        for _ in range(MAX_TRIES):
            try:
                value = self._value(self._schema, 0)
            except (re.error, ValueError, KeyError, TypeError, OverflowError) as error:
                reason = str(error)
                continue
            if not isinstance(value, dict):
                raise Unproducible("it does not describe an object")
            if self._allows(value):
                return value
            reason = next((error.message for error in self._validator.iter_errors(value)), reason)
        raise Unproducible(reason)

    def invalid(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield objects that the schema forbids, each after a description of what is wrong. Raises:
        Unproducible."""
        valid = self.valid()
        for name in self._schema.get("required", ()):
            without = {key: value for key, value in valid.items() if key != name}
            if not self._allows(without):
                yield f"without {name!r}", without
        for name in self._schema.get("properties", {}):
            for wrong in ({"unexpected": ["value"]}, [["unexpected"]]):
                arguments = {**copy.deepcopy(valid), name: wrong}
                if not self._allows(arguments):
                    yield f"{name!r} as {type(wrong).__name__}", arguments
                    break

    def _allows(self, value: Any) -> bool:
        try:
            return bool(self._validator.is_valid(value))
        except (Unresolvable, RecursionError) as error:
            raise Unproducible(
                f"it refers to a schema that it does not contain: {error}"
            ) from error

    # --- values -----------------------------------------------------------------------------------

    def _value(self, schema: Any, depth: int) -> Any:
        if not isinstance(schema, Mapping):
            return self._value({"type": "string"}, depth)  # `true` allows every value
        schema = self._resolved(schema)
        if "const" in schema:
            return copy.deepcopy(schema["const"])
        if schema.get("enum"):
            return copy.deepcopy(self._random.choice(schema["enum"]))
        for key, share in (("examples", EXAMPLES_SHARE), ("default", DEFAULT_SHARE)):
            if key in schema and self._random.random() < share:
                return copy.deepcopy(
                    self._random.choice(schema[key]) if key == "examples" else schema[key]
                )
        for key in ("oneOf", "anyOf"):
            if key in schema:
                rest = {
                    name: value for name, value in schema.items() if name not in ("oneOf", "anyOf")
                }
                branches = schema[key]
                if depth >= MAX_DEPTH:  # one without nested values, if there is any
                    simple = [
                        branch
                        for branch in branches
                        if isinstance(branch, Mapping) and branch.get("type") in _TYPES[:5]
                    ]
                    branches = simple or branches
                branch = self._resolved(self._random.choice(branches))
                return self._value(_merged(rest, branch), depth)
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = self._random.choice(kind)
        if kind is None:
            kind = next((name for key, name in _KEYWORDS.items() if key in schema), "string")
        return getattr(self, f"_{kind}")(schema, depth)

    def _resolved(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return `schema` merged with the targets of its $ref and allOf. Raises: Unproducible."""
        result = dict(schema)
        for _ in range(MAX_DEPTH):
            if "$ref" in result:
                try:
                    target = References(self._schema).target(result.pop("$ref"))
                except LookupError as error:
                    raise Unproducible(str(error.args[0])) from error
                result = _merged(result, target if isinstance(target, Mapping) else {})
            elif "allOf" in result:
                parts = result.pop("allOf")
                for part in parts:
                    result = _merged(result, part)
            else:
                break
        return result

    def _null(self, schema: Mapping[str, Any], depth: int) -> None:
        return None

    def _boolean(self, schema: Mapping[str, Any], depth: int) -> bool:
        return self._random.random() < 0.5

    def _integer(self, schema: Mapping[str, Any], depth: int) -> int:
        low, high = _bounds(schema, 1)
        if self._seen.numbers and self._random.random() < SEEN_SHARE:
            ends = [self._random.choice(self._seen.numbers) for _ in range(2)]
            return self._random.randint(min(ends), max(ends))
        step = int(schema.get("multipleOf", 1)) or 1
        first = -(-int(low) // step)
        return self._random.randint(first, max(first, int(high) // step)) * step

    def _number(self, schema: Mapping[str, Any], depth: int) -> float:
        low, high = _bounds(schema, 1e-6)
        if step := schema.get("multipleOf"):
            return float(
                step
                * self._random.randint(round(low / step), max(round(low / step), int(high / step)))
            )
        if self._random.random() < 0.5 and int(high) > low:  # agents mostly send whole numbers
            return float(self._random.randint(int(low) + (low > int(low)), int(high)))
        return round(self._random.uniform(low, high), 6)

    def _string(self, schema: Mapping[str, Any], depth: int) -> str:
        return text_for(schema, self._random, self._seen)

    def _array(self, schema: Mapping[str, Any], depth: int) -> list[Any]:
        items = [self._value(item, depth + 1) for item in schema.get("prefixItems", ())]
        low = int(schema.get("minItems", 0))
        high = min(int(schema.get("maxItems", low + 3)), low + 3)
        count = max(
            low, len(items) if depth >= MAX_DEPTH else self._random.randint(low, max(low, high))
        )
        if schema.get("items", True) is False:
            return items
        for _ in range(MAX_TRIES):
            if len(items) >= count:
                break
            item = self._value(schema.get("items", {}), depth + 1)
            if not (schema.get("uniqueItems") and item in items):
                items.append(item)
        return items

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        properties = schema.get("properties", {})
        names = schema.get("required", ())
        members = {}
        for name in [*properties, *(name for name in names if name not in properties)]:
            if name in names or (depth < MAX_DEPTH and self._random.random() < 0.7):
                members[name] = self._value(properties.get(name, {}), depth + 1)
        more = schema.get("additionalProperties")
        if isinstance(more, Mapping) and depth < MAX_DEPTH:
            members.update(
                {f"key{n}": self._value(more, depth + 1) for n in range(self._random.randint(0, 2))}
            )
        return members


def _bounds(schema: Mapping[str, Any], least: float) -> tuple[float, float]:
    """Return the lowest and highest allowed number; a missing bound is 100 away from the other."""
    low, high = schema.get("minimum"), schema.get("maximum")
    if (above := schema.get("exclusiveMinimum")) is not None:
        low = above + least if low is None else max(low, above + least)
    if (below := schema.get("exclusiveMaximum")) is not None:
        high = below - least if high is None else min(high, below - least)
    if low is None:
        low = min(0, high - 100) if high is not None else 0
    return low, max(low, high) if high is not None else max(low, 0) + 100


def _merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Return both schemas merged: properties and required names are joined, other keywords are
    those of `second`."""
    result = {**first, **second}
    for key in ("properties", "$defs"):
        if key in first and key in second:
            result[key] = {**first[key], **second[key]}
    if "required" in first and "required" in second:
        result["required"] = [*first["required"], *second["required"]]
    return result


FINAL_MESSAGE = "The answer is 42."
ENDING_SHARE = 0.1
"""Share of the calls that use a tool that is known to end an episode."""

Choice = tuple[str, dict[str, Any]]


def choices(
    listing: dict[str, Any], steps: int, random: Random, observations: Seen, endings: Set[str]
) -> Iterator[Choice]:
    """Yield tool and input of each call of an episode.

    Every tool is called once, those in `endings` (known to end an episode) rarely and last, then
    the terminal tool.
    """
    makers = {}
    for tool in listing["tools"]:
        with suppress(Unproducible):  # reported by the check of schemas
            inputs = Inputs(tool["input_schema"], random, observations)
            inputs.valid()
            makers[tool["name"]] = inputs
    for name in _names(sorted(makers), steps, random, endings):
        yield name, makers[name].valid()
    if ending := listing.get("terminal_tool"):
        yield ending["name"], {ending["arg"]: FINAL_MESSAGE} if ending.get("arg") else {}


def _names(names: list[str], steps: int, random: Random, endings: Set[str]) -> Iterator[str]:
    if not names:
        return
    continuing = [name for name in names if name not in endings] or names
    ending = [name for name in names if name in endings]
    random.shuffle(continuing)
    yield from continuing[:steps]
    for _ in range(steps - len(continuing) - 1):
        yield random.choice(ending if ending and random.random() < ENDING_SHARE else continuing)
    if ending:
        yield random.choice(ending)
