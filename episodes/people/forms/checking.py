"""Checking a value against a tool's schema: each problem with the path of its member, in a sentence
for players.

Checking a recursive union can take time exponential in its depth, and players decide on the depth.
After MAX_REFERENCES the check stops without a problem, and the environment's own check decides.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from datetime import date, datetime, time
from functools import lru_cache
from typing import Any, NamedTuple, cast
from uuid import UUID

import jsonschema
from jsonschema.protocols import Validator
from jsonschema_specifications import REGISTRY as DRAFTS  # type: ignore[import-untyped]
from referencing.exceptions import Unresolvable

from environments.display.schema_fields import kind_of, limit_shown
from environments.errors import shorten
from episodes.people.forms.values import preview

Error = jsonschema.ValidationError

MAX_PROBLEMS = 20
MAX_REFERENCES = 2_000
"""Maximum number of references that one check follows."""
MAX_QUICK_CHARACTERS = 2_000
"""Characters of a schema or value that can be checked on the event loop."""
_SLOW = re.compile(r'"(\$ref|\$dynamicRef|\$recursiveRef|pattern|patternProperties|uniqueItems)"')
_references: ContextVar[int] = ContextVar("references that a check may still follow")
_LIMITS = {
    "minimum": "{value} is too small; the minimum is {limit}",
    "maximum": "{value} is too large; the maximum is {limit}",
    "exclusiveMinimum": "{value} is too small; it has to be greater than {limit}",
    "exclusiveMaximum": "{value} is too large; it has to be less than {limit}",
    "multipleOf": "{value} is not a multiple of {limit}",
    "minLength": "{count} too few; at least {limit} needed",
    "maxLength": "{count} too many; at most {limit} allowed",
    "minItems": "{count} too few; at least {limit} needed",
    "maxItems": "{count} too many; at most {limit} allowed",
    "minProperties": "{count} too few; at least {limit} needed",
    "maxProperties": "{count} too many; at most {limit} allowed",
    "uniqueItems": "two items are equal; each item has to be unique",
    "const": "expected {limit}, not {value}",
}
_COUNTED = {"Length": "character", "Items": "item", "Properties": "member"}
"""End of a limit's keyword -> what the limit counts."""


class Problem(NamedTuple):
    """A problem with an input."""

    path: tuple[str | int, ...]
    """Names and indexes that lead to the part of the input, from the outside in."""
    message: str


_FORMATS: dict[str, tuple[Callable[[str], object], str]] = {
    "date": (date.fromisoformat, "a date, such as 2024-05-31"),
    "time": (time.fromisoformat, "a time, such as 14:30:00"),
    "date-time": (datetime.fromisoformat, "a date with a time, such as 2024-05-31T14:30:00Z"),
    "uuid": (UUID, "an id, such as 123e4567-e89b-12d3-a456-426614174000"),
    "email": (
        re.compile(r"[^@\s]+@[^@\s]+").fullmatch,
        "an email address, such as name@example.org",
    ),
    "uri": (
        re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S*").fullmatch,
        "an address, such as https://example.org",
    ),
}
"""Format -> what fails or returns None for a text that does not have it, and what is expected in
words."""


class _TooMuch(Exception):
    """The check followed more than MAX_REFERENCES references."""


_SCHEMA_FAULTS = (
    jsonschema.exceptions.UnknownType,
    Unresolvable,
    RecursionError,
    re.error,
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
    _TooMuch,
)
"""Raised by keywords with invalid values. The schema is not validated first, which takes seconds
for a wide schema."""


def check(schema: Any, value: Any) -> list[Problem]:
    """Return the problems of `value` in the schema's order; empty if there are none or the schema
    is not checkable. A tool without a schema takes any value."""
    if schema is None:
        return []
    token = _references.set(MAX_REFERENCES)
    problems: dict[Problem, None] = {}
    try:
        for error in _validator(json.dumps(schema)).iter_errors(value):
            problems |= dict.fromkeys(_problems_of(_meant(error), schema))
            if len(problems) >= MAX_PROBLEMS:
                break
    except _SCHEMA_FAULTS:
        return []  # the schema is faulty; the environment itself reports that
    finally:
        _references.reset(token)
    return list(problems)


def is_quick(schema: Any, value: Any) -> bool:
    """Return whether a check takes less time than starting a thread for it.

    True if both texts are short and the schema has no keyword whose cost grows faster than its
    length.
    """
    texts = json.dumps(schema), json.dumps(value)
    return max(map(len, texts)) <= MAX_QUICK_CHARACTERS and not _SLOW.search(texts[0])


@lru_cache(maxsize=64)
def _validator(text: str) -> Validator:
    schema = json.loads(text)
    cls = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    # a registry that never retrieves schemas
    return cast(Validator, _counting(cls)(schema, registry=DRAFTS))


@lru_cache(maxsize=8)
def _counting(cls: Any) -> Any:
    """Return `cls` changed to stop after MAX_REFERENCES references."""
    follow = cls.VALIDATORS["$ref"]

    def counted(validator: Any, ref: Any, instance: Any, schema: Any) -> Any:
        _references.set(_references.get() - 1)
        if _references.get() < 0:
            raise _TooMuch
        return follow(validator, ref, instance, schema)

    return jsonschema.validators.extend(cls, {"$ref": counted, "format": _check_format})  # type: ignore[no-untyped-call]


def _check_format(validator: Any, name: Any, instance: Any, schema: Any) -> Iterator[Error]:
    if isinstance(instance, str) and name in _FORMATS:
        is_valid, description = _FORMATS[name]
        try:
            is_wrong = is_valid(instance) is None
        except ValueError:
            is_wrong = True
        if is_wrong:
            yield Error(f"{preview(instance)} is not {description}")


def _meant(error: Error) -> Error:
    """Return the error that says best why no branch of a union accepts a value.

    Where a constant member distinguishes the branches: an error of the branch with the value's
    constant, or that no branch has it. jsonschema alone may choose another branch.
    """
    if error.validator in ("anyOf", "oneOf") and error.context:
        constants = {  # index of a branch -> the error at its constant member
            inner.relative_schema_path[0]: inner
            for inner in error.context
            if inner.validator == "const" and len(inner.relative_path) == 1
        }
        others = [
            inner for inner in error.context if inner.relative_schema_path[0] not in constants
        ]
        if constants and others:
            return _meant(cast(Error, jsonschema.exceptions.best_match(others)))
        if constants:
            first, *_ = constants.values()
            values = [inner.validator_value for inner in constants.values()]
            return Error(
                "",
                validator="enum",
                path=first.absolute_path,
                validator_value=values,
                instance=first.instance,
            )
    return cast(Error, jsonschema.exceptions.best_match([error]))


def _problems_of(error: Error, root: Any) -> Iterator[Problem]:
    path, word, value = tuple(error.absolute_path), error.validator, error.instance
    limit = cast(Any, error.validator_value)
    if word == "required" and isinstance(value, dict):
        for name in limit:
            if name not in value:
                yield Problem((*path, name), "Required.")
    elif word == "additionalProperties" and limit is False and isinstance(value, dict):
        members = error.schema.get("properties", {}) if isinstance(error.schema, dict) else {}
        names = ", ".join(map(preview, list(members)[:12])) or "none"
        for name in value:
            if name not in members:
                sentence = f"There is no member named {preview(name)}; the members are {names}."
                yield Problem((*path, name), sentence)
    else:
        sentence = _sentence(error, root)
        yield Problem(path, f"{sentence[:1].upper()}{sentence[1:]}.")


def _sentence(error: Error, root: Any) -> str:
    word, value, limit = str(error.validator), cast(Any, error.instance), error.validator_value
    schema = error.schema if isinstance(error.schema, dict) else {}
    if word in _LIMITS:
        limit_text, count = limit_shown(word, limit), ""
        if word[3:] in _COUNTED:
            limit_text += " is" if limit == 1 else " are"
            noun = _COUNTED[word[3:]]
            count = f"1 {noun} is" if len(value) == 1 else f"{len(value):,} {noun}s are"
        return _LIMITS[word].format(value=preview(value), limit=limit_text, count=count)
    if word == "pattern":
        match schema.get("examples"):
            case [example, *_]:
                form = f"such as {preview(example)}"
            case _:
                form = limit_shown(word, limit)
        return f"{preview(value)} does not have the expected form: {form}"
    if word == "enum":
        return f"{preview(value)} is not one of {', '.join(map(preview, cast(Any, limit)[:12]))}"
    if word == "oneOf" and not error.context:
        return f"{preview(value)} matches several of the allowed kinds; it has to match exactly one"
    if word in ("type", "anyOf", "oneOf"):
        kind = kind_of(schema, root) if schema and isinstance(root, dict) else "anything"
        return f"expected {kind}, not {preview(value)}"
    return shorten(error.message, 300)
