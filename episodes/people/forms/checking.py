"""Checking a value against a tool's schema: each problem with the path of its member, in a sentence
for players.

Checking a recursive union can take time exponential in its depth, and players decide on the depth.
After MAX_REFERENCES the check stops without a problem, and the environment's own check decides.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from datetime import date, datetime, time
from functools import lru_cache
from typing import Any, cast
from urllib.parse import urlsplit
from uuid import UUID

import jsonschema
from jsonschema.protocols import Validator
from jsonschema_specifications import REGISTRY as DRAFTS  # type: ignore[import-untyped]
from referencing.exceptions import Unresolvable

from environments.display.numbers import digits_of
from environments.display.schema_fields import kind_of, limit_shown
from episodes.people.forms.control import FormProblem, Path
from episodes.people.forms.values import shown

Error = jsonschema.ValidationError


MAX_PROBLEMS = 20
MAX_REFERENCES = 2_000
"""Maximum number of references that one check follows."""
MAX_QUICK_CHARACTERS = 2_000
"""Characters of a schema or value that can be checked on the event loop."""
_SLOW = (
    '"$ref"',
    '"$dynamicRef"',
    '"$recursiveRef"',
    '"pattern"',
    '"patternProperties"',
    '"uniqueItems"',
)
_left: ContextVar[int] = ContextVar("references that a check may still follow")
_LIMITS = {
    "minimum": "{value} is too small; the minimum is {limit}",
    "maximum": "{value} is too large; the maximum is {limit}",
    "exclusiveMinimum": "{value} is too small; it has to be greater than {limit}",
    "exclusiveMaximum": "{value} is too large; it has to be less than {limit}",
    "multipleOf": "{value} is not a multiple of {limit}{near}",
    "pattern": "{value} does not have the expected form: {limit}",
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


def _is_email(text: str) -> bool:
    return re.fullmatch(r"[^@\s]+@[^@\s]+", text) is not None


def _is_uri(text: str) -> bool:
    return bool(urlsplit(text).scheme) and not re.search(r"\s", text)


_FORMATS: dict[str, tuple[Callable[[str], object], str]] = {
    "date": (date.fromisoformat, "a date, such as 2024-05-31"),
    "time": (time.fromisoformat, "a time, such as 14:30:00"),
    "date-time": (datetime.fromisoformat, "a date with a time, such as 2024-05-31T14:30:00Z"),
    "uuid": (UUID, "an id, such as 123e4567-e89b-12d3-a456-426614174000"),
    "email": (_is_email, "an email address, such as name@example.org"),
    "uri": (_is_uri, "an address, such as https://example.org"),
}
"""Format -> what fails or returns False for a text that does not have it, and what is expected in
words."""


class _TooMuch(Exception):
    """The check followed more than MAX_REFERENCES references."""


_SCHEMA_FAULTS = (
    *(jsonschema.exceptions.UnknownType, Unresolvable, RecursionError, re.error, ArithmeticError),
    *(AttributeError, LookupError, TypeError, ValueError, _TooMuch),
)
"""Raised by keywords with invalid values. The schema is not validated first, which takes seconds
for a wide schema."""


def check(schema: Any, value: Any) -> list[FormProblem]:
    """Return the problems of `value` in the schema's order; empty if there are none or the schema
    is not checkable."""
    token = _left.set(MAX_REFERENCES)
    problems: dict[tuple[Path, str], FormProblem] = {}
    try:
        for error in _validator(json.dumps(schema)).iter_errors(value):
            for one in _meant(error):
                for problem in [one] if isinstance(one, FormProblem) else _problems_of(one, schema):
                    problems.setdefault((problem.path, problem.message), problem)
            if len(problems) >= MAX_PROBLEMS:
                break
    except _SCHEMA_FAULTS:
        return []  # the schema is faulty; the environment itself reports that
    finally:
        _left.reset(token)
    return list(problems.values())


def is_quick(schema: Any, value: Any) -> bool:
    """Return whether a check takes less time than starting a thread for it.

    True if both texts are short and the schema has no keyword whose cost grows faster than its
    length.
    """
    texts = json.dumps(schema), json.dumps(value)
    return max(map(len, texts)) <= MAX_QUICK_CHARACTERS and not any(
        word in texts[0] for word in _SLOW
    )


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
        _left.set(_left.get() - 1)
        if _left.get() < 0:
            raise _TooMuch
        return follow(validator, ref, instance, schema)

    return jsonschema.validators.extend(cls, {"$ref": counted, "format": _check_format})  # type: ignore[no-untyped-call]


def _check_format(validator: Any, name: Any, instance: Any, schema: Any) -> Iterator[Error]:
    if isinstance(instance, str) and name in _FORMATS:
        is_valid, expected = _FORMATS[name]
        try:
            is_wrong = is_valid(instance) is False
        except ValueError:
            is_wrong = True
        if is_wrong:
            yield Error(f"{shown(instance)} is not {expected}")


def _problems_of(error: Error, root: Any) -> Iterator[FormProblem]:
    path, word, value, expected = (
        tuple(error.absolute_path),
        str(error.validator),
        error.instance,
        cast(Any, error.validator_value),
    )
    if word == "required" and isinstance(value, dict):
        yield from (
            FormProblem((*path, name), "Required.") for name in expected if name not in value
        )
    elif word == "additionalProperties" and expected is False and isinstance(value, dict):
        named = error.schema.get("properties", {}) if isinstance(error.schema, dict) else {}
        names = ", ".join(map(shown, list(named)[:12])) or "none"
        yield from (
            FormProblem(
                (*path, name), f"There is no member named {shown(name)}; the members are {names}."
            )
            for name in value
            if name not in named
        )
    else:
        yield FormProblem(path, f"{_sentence(error, root)}.")


def _sentence(error: Error, root: Any) -> str:
    word, value, expected = str(error.validator), error.instance, cast(Any, error.validator_value)
    kind = (
        kind_of(error.schema, root)
        if isinstance(error.schema, dict) and isinstance(root, dict)
        else "anything"
    )
    if word in _LIMITS:
        few = (
            f"{len(value):,} {_COUNTED.get(word[3:], '')}"
            if isinstance(value, str | list | dict)
            else ""
        )
        count = f"{few} is" if few.startswith("1 ") else f"{few}s are"
        limit = limit_shown(word, expected) + (
            (" is" if expected == 1 else " are") if word[3:] in _COUNTED else ""
        )
        if word == "pattern":
            limit = _form_of(expected, error.schema) or limit
        near = _multiples_near(cast(float, value), expected) if word == "multipleOf" else ""
        text = _LIMITS[word].format(value=shown(value), limit=limit, count=count, near=near)
    elif word == "enum":
        text = f"{shown(value)} is not one of {', '.join(shown(one) for one in expected[:12])}"
    elif word == "oneOf" and not error.context:
        text = f"{shown(value)} matches several of the allowed kinds; it has to match exactly one"
    elif word in ("type", "anyOf", "oneOf"):
        text = f"expected {kind}, not {shown(value)}"
    else:
        text = (
            error.message
            if len(error.message) <= 300
            else f"{error.message[:299]}\N{HORIZONTAL ELLIPSIS}"
        )
    return f"{text[:1].upper()}{text[1:]}"


# --- unions ---------------------------------------------------------------------------------------


def _meant(error: Error) -> Iterator[Error | FormProblem]:
    """Yield the problems of a value that no branch of a union accepts.

    Where a constant member distinguishes the branches: the problems of the branch with the value's
    constant, or that no branch has it. Otherwise the error that jsonschema finds most relevant,
    which may belong to another branch.
    """
    if error.validator in ("anyOf", "oneOf") and error.context:
        branches = set(range(len(cast(list[Any], error.validator_value))))
        for path, refused in _by_constant(error.context).items():
            left = branches - refused.keys()
            if not left:
                yield _none_of(path, refused)
                return
            if len(left) == 1 and len(branches) > 1:
                for one in error.context:
                    if one.relative_schema_path[0] in left:
                        yield from _meant(one)
                return
    yield cast(Error, jsonschema.exceptions.best_match([error]))


def _by_constant(errors: list[Error]) -> dict[Path, dict[Any, Error]]:
    """Map the path of a member to the error of each branch that requires another constant there, by
    its index."""
    problems: dict[Path, dict[Any, Error]] = {}
    for one in errors:
        if one.validator == "const" and len(one.relative_path) == 1:
            problems.setdefault(tuple(one.absolute_path), {})[one.relative_schema_path[0]] = one
    return problems


def _none_of(path: Path, refused: dict[Any, Error]) -> FormProblem:
    errors = list(refused.values())
    names = ", ".join(shown(cast(Any, one.validator_value)) for one in errors[:12])
    return FormProblem(path, f"{shown(cast(Any, errors[0].instance))} is not one of {names}.")


# --- limits in words ------------------------------------------------------------------------------

_SETS = {
    **{
        "[a-z]": "small letter",
        "[A-Z]": "capital letter",
        "[A-Za-z]": "letter",
        "[a-zA-Z]": "letter",
    },
    **{
        "[0-9]": "digit",
        r"\d": "digit",
        r"\w": "letter, digit or underscore",
        "[A-Za-z0-9]": "letter or digit",
    },
    **{
        "[a-zA-Z0-9]": "letter or digit",
        "[a-z0-9]": "small letter or digit",
        "[A-Z0-9]": "capital letter or digit",
    },
}
_PIECE = re.compile(
    rf"(?P<set>{'|'.join(map(re.escape, _SETS))})(?P<count>\{{\d+(?:,\d*)?\}}|[+*?])?"
    r"|\\(?P<sign>[-_ /.:#@,])|(?P<text>[-_ /:#@,]|[A-Za-z0-9]+)"
)


def _multiples_near(value: float, step: float) -> str:
    """Return the neighbours of `value` that are multiples of `step`, as the end of a sentence."""
    below = math.floor(value / step)
    low, high = (round(at * step, 10) for at in (below, below + 1))
    return f"; the nearest are {digits_of(low)} and {digits_of(high)}"


def _form_of(pattern: Any, schema: Any) -> str:
    """Return a simple pattern in words, such as "3 capital letters, then "-""; of another its
    example, or nothing."""
    body = re.fullmatch(r"\^(.*)\$", str(pattern))
    parts, at = [], 0
    while body and at < len(body[1]) and (piece := _PIECE.match(body[1], at)):
        parts.append(_piece_in_words(piece))
        at = piece.end()
    if body and parts and at == len(body[1]):
        return ", then ".join(parts)
    examples = schema.get("examples") if isinstance(schema, dict) else None
    return f"such as {shown(examples[0])}" if isinstance(examples, list) and examples else ""


def _piece_in_words(piece: re.Match[str]) -> str:
    if not piece["set"]:
        return f'"{piece["sign"] or piece["text"]}"'
    name, count = _SETS[piece["set"]], piece["count"] or ""
    if not count:
        return f"a {name}"
    many = name.replace("letter", "letters").replace("digit", "digits")
    least, _, most = count.strip("{}").partition(",")
    if count[0] == "{":
        return (
            f"{least} {name if count == '{1}' else many}"
            if "," not in count
            else f"{least} to {most or 'any number of'} {many}"
        )
    return {"+": f"one or more {many}", "*": f"any number of {many}", "?": f"perhaps a {name}"}[
        count
    ]
