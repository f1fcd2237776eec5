"""A value checked against a tool's schema: each problem at the member it is about, in a sentence for whoever plays.

Recursive unions can cost a power of their depth to check, and whoever plays decides on the depth: after MAX_REFERENCES
the check is given up, and the environment's own is left to judge.

Ways: what is to be told of a union that refuses a value: what the way that was meant says. `checking.py` asks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, cast

import jsonschema
from jsonschema.protocols import Validator
from jsonschema_specifications import REGISTRY as DRAFTS  # type: ignore[import-untyped]
from referencing.exceptions import Unresolvable

from environments.display.schema_fields import kind_of, limit_shown
from episodes.playtest.forms.control import FormProblem, Path
from episodes.playtest.forms.values import shown

Error = jsonschema.ValidationError


def meant(error: Error) -> Iterator[Error | FormProblem]:
    """Where a constant member tells the ways of a union apart: what the way with that constant refuses, or that none
    has it. Otherwise the error that jsonschema holds for the most telling, which may be of a way that nobody meant.
    """
    if error.validator in ("anyOf", "oneOf") and error.context:
        ways = set(range(len(cast(list[Any], error.validator_value))))
        for path, refused in _by_constant(error.context).items():
            left = ways - refused.keys()
            if not left:
                yield _none_of(path, refused)
                return
            if len(left) == 1 and len(ways) > 1:
                for one in error.context:
                    if one.relative_schema_path[0] in left:
                        yield from meant(one)
                return
    yield cast(Error, jsonschema.exceptions.best_match([error]))


def _by_constant(errors: list[Error]) -> dict[Path, dict[Any, Error]]:
    """Path of a member -> number of each way that wants another constant there -> its error."""
    found: dict[Path, dict[Any, Error]] = {}
    for one in errors:
        if one.validator == "const" and len(one.relative_path) == 1:
            found.setdefault(tuple(one.absolute_path), {})[one.relative_schema_path[0]] = one
    return found


def _none_of(path: Path, refused: dict[Any, Error]) -> FormProblem:
    errors = list(refused.values())
    known = ", ".join(shown(cast(Any, one.validator_value)) for one in errors[:12])
    return FormProblem(path, f"{shown(cast(Any, errors[0].instance))} is none of {known}.")


MAX_PROBLEMS = 20
MAX_REFERENCES = 2_000
MAX_QUICK = 2_000
"""Characters."""
_SLOW = ('"$ref"', '"$dynamicRef"', '"$recursiveRef"', '"pattern"', '"patternProperties"', '"uniqueItems"')
_left: ContextVar[int] = ContextVar("references that a check may still follow")
_LIMITS = {
    "minimum": "{value} is too small; at least {limit} is needed",
    "maximum": "{value} is too large; at most {limit} is allowed",
    "exclusiveMinimum": "{value} is too small; it has to be above {limit}",
    "exclusiveMaximum": "{value} is too large; it has to be below {limit}",
    "multipleOf": "{value} is no multiple of {limit}",
    "pattern": "{value} does not match {limit}",
    "minLength": "{count} too few; at least {limit} needed",
    "maxLength": "{count} too many; at most {limit} allowed",
    "minItems": "{count} too few; at least {limit} needed",
    "maxItems": "{count} too many; at most {limit} allowed",
    "minProperties": "{count} too few; at least {limit} needed",
    "maxProperties": "{count} too many; at most {limit} allowed",
    "uniqueItems": "two of the items are the same; each may stand here once",
    "const": "{value} was given; it has to be {limit}",
}
_COUNTED = {"Length": "character", "Items": "item", "Properties": "member"}
"""What a limit counts, by the end of its keyword."""


class _TooMuch(Exception):
    """The check took more steps than it may."""


_UNFIT = (
    *(jsonschema.exceptions.UnknownType, Unresolvable, RecursionError, re.error, ArithmeticError),
    *(AttributeError, LookupError, TypeError, ValueError, _TooMuch),
)
"""What keywords with senseless values raise. Nobody looks for them before: that takes seconds for a wide schema."""


def check(schema: Any, value: Any) -> list[FormProblem]:
    """What the schema refuses of `value`, in the order of the schema; empty: nothing, or it cannot be told."""
    token = _left.set(MAX_REFERENCES)
    found: dict[tuple[Path, str], FormProblem] = {}
    try:
        for error in _validator(json.dumps(schema)).iter_errors(value):
            for one in meant(error):
                for problem in [one] if isinstance(one, FormProblem) else _told(one, schema):
                    found.setdefault((problem.path, problem.message), problem)
            if len(found) >= MAX_PROBLEMS:
                break
    except _UNFIT:
        return []  # nothing that could be checked against, as its author learns from the environment itself
    finally:
        _left.reset(token)
    return list(found.values())


def is_quick(schema: Any, value: Any) -> bool:
    """Whether a check ends before a thread for it would have begun, whatever the value: both are short, and no keyword
    takes longer than it is long."""
    texts = json.dumps(schema), json.dumps(value)
    return max(map(len, texts)) <= MAX_QUICK and not any(word in texts[0] for word in _SLOW)


@lru_cache(maxsize=64)
def _validator(text: str) -> Validator:
    schema = json.loads(text)
    cls = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    return cast(Validator, _counting(cls)(schema, registry=DRAFTS))  # a registry without a way to retrieve others


@lru_cache(maxsize=8)
def _counting(cls: Any) -> Any:
    """`cls` that gives up, instead of following references without end."""
    follow = cls.VALIDATORS["$ref"]

    def counted(validator: Any, ref: Any, instance: Any, schema: Any) -> Any:
        _left.set(_left.get() - 1)
        if _left.get() < 0:
            raise _TooMuch
        return follow(validator, ref, instance, schema)

    return jsonschema.validators.extend(cls, {"$ref": counted})  # type: ignore[no-untyped-call]


def _told(error: jsonschema.ValidationError, root: Any) -> Iterator[FormProblem]:
    path, word, value, asked = (
        tuple(error.absolute_path),
        str(error.validator),
        error.instance,
        cast(Any, error.validator_value),
    )
    if word == "required" and isinstance(value, dict):
        yield from (FormProblem((*path, name), "Required.") for name in asked if name not in value)
    elif word == "additionalProperties" and asked is False and isinstance(value, dict):
        named = error.schema.get("properties", {}) if isinstance(error.schema, dict) else {}
        known = ", ".join(map(shown, list(named)[:12])) or "none"
        yield from (
            FormProblem((*path, name), f"There is no member named {shown(name)}; known: {known}.")
            for name in value
            if name not in named
        )
    else:
        yield FormProblem(path, f"{_sentence(error, root)}.")


def _sentence(error: jsonschema.ValidationError, root: Any) -> str:
    word, value, asked = str(error.validator), error.instance, cast(Any, error.validator_value)
    kind = kind_of(error.schema, root) if isinstance(error.schema, dict) and isinstance(root, dict) else "anything"
    if word in _LIMITS:
        few = f"{len(value):,} {_COUNTED.get(word[3:], '')}" if isinstance(value, str | list | dict) else ""
        count = f"{few} is" if few.startswith("1 ") else f"{few}s are"
        limit = limit_shown(word, asked) + ((" is" if asked == 1 else " are") if word[3:] in _COUNTED else "")
        text = _LIMITS[word].format(value=shown(value), limit=limit, count=count)
    elif word == "enum":
        text = f"{shown(value)} is none of {', '.join(shown(one) for one in asked[:12])}"
    elif word == "oneOf" and not error.context:
        text = f"{shown(value)} fits several of the ways that it may be; it has to fit one alone"
    elif word in ("type", "anyOf", "oneOf"):
        text = f"{shown(value)} was given; needed is: {kind}"
    else:
        text = error.message if len(error.message) <= 300 else f"{error.message[:299]}\N{HORIZONTAL ELLIPSIS}"
    return f"{text[:1].upper()}{text[1:]}"
