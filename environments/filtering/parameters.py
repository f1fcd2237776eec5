"""Parsers of the parameters of addresses, for pages and the API.

Each parser takes the parameter's name and its text, returns the value and raises BadFilter.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeVar, overload

from django.core.exceptions import BadRequest

from environments.database.storable import MAX_BIGINT, UNSTORABLE, number_in, whole_in
from environments.errors import OrsError, nearest, shorten
from environments.scoring.convention import CONVENTION_PARTS
from environments.scoring.definition import DefinitionOverrides
from environments.scoring.returns import RETURNS

T = TypeVar("T")
D = TypeVar("D")
C = TypeVar("C", bound=str)
LEGAL = "allowed are "
"""Start of what is allowed where that is a list of words."""
_SPAN = re.compile(r"[1-9][0-9]{0,4}[mhdw]")


class BadFilter(OrsError, BadRequest):
    """A parameter whose value cannot be used. `allowed` says why, and what is allowed.

    Views let it pass: Django answers a BadRequest with the error page of status 400, and the API
    with the same sentence as JSON (`episodes/api/base.py`).
    """

    def __init__(self, field: str, value: object, rule: str) -> None:
        super().__init__(f"{field}={shorten(str(value), 80)!r} cannot be used: {rule}.")
        self.field, self.value, self.allowed = field, str(value), rule


def unknown_name(
    name: str, value: object, names: Collection[str], what: str = "parameter", plural: str = ""
) -> BadFilter:
    """Return the error for a name that is not in `names`, with the nearest. `plural`: of `what`, if
    it is not formed by an s."""
    if not names:
        return BadFilter(name, value, f"no {what} has that name; there are none here")
    every = f"The {plural or f'{what}s'} are {', '.join(names)}"
    return BadFilter(name, value, f"no {what} has that name.{nearest(name, names)} {every}")


@overload
def given(query: Mapping[str, str], name: str, parse: Callable[[str, str], T]) -> T | None: ...


@overload
def given(
    query: Mapping[str, str], name: str, parse: Callable[[str, str], T], default: D
) -> T | D: ...


def given(
    query: Mapping[str, str], name: str, parse: Callable[[str, str], Any], default: Any = None
) -> Any:
    """Return what the parameter `name` of an address means; `default` if it is absent or empty.
    Raises: BadFilter."""
    text = trimmed(query.get(name, ""))
    return parse(name, text) if text else default


def trimmed(text: str) -> str:
    """Return the text of a parameter without blanks around it; empty if it has nothing else.

    A line break stays: no name that is recorded ends with one, so a filter by such a name finds
    nothing.
    """
    return text.strip(" \t") if text.strip() else ""


def refuse_blanks(query: Mapping[str, str], names: Collection[str] | None = None) -> None:
    """Refuse blank values where ignoring them would take more than was meant. Raises: BadFilter.

    `names`: the parameters that may not be blank; None: all.
    """
    for name, value in query.items():
        if (names is None or name in names) and not value.replace(",", " ").strip():
            raise BadFilter(name, value, "it is blank; give it a value or leave it out")


def refuse_double(query: Mapping[str, str], name: str) -> None:
    """Refuse a parameter that the address has twice, which only a QueryDict can show. Raises:
    BadFilter."""
    values = query.getlist(name) if hasattr(query, "getlist") else []
    if len({value for value in values if value.strip()}) > 1:
        raise BadFilter(
            name, ", ".join(values), "the address has it more than once; one value is allowed"
        )


def any_text(name: str, text: str) -> str:
    """Return the text, if a database can store it."""
    if UNSTORABLE.search(text):
        raise BadFilter(name, text, "it has a character that no recorded text can contain")
    return text


def person(name: str, text: str) -> str:
    """Return the name of a person as it is recorded: with @ in front, which the label of an agent's
    key never has."""
    if not any_text(name, text).startswith("@"):
        raise BadFilter(
            name, text, "names of people start with @, such as @alice; the People page lists them"
        )
    return text


def chosen(legal: Sequence[C]) -> Callable[[str, str], C]:
    """Return a parser that takes only the words in `legal`."""

    def parse(name: str, text: str) -> C:
        if text not in legal:
            raise BadFilter(name, text, f"{LEGAL}{', '.join(legal)}")
        return legal[legal.index(text)]

    return parse


def flag(name: str, text: str) -> bool:
    return chosen(("yes", "no"))(name, text) == "yes"


def whole_from(least: int, most: int = MAX_BIGINT) -> Callable[[str, str], int]:
    """Return a parser of whole numbers from `least` to `most`, both included."""
    bounds = ""
    if most < MAX_BIGINT:
        bounds = f" from {least} to {most}"
    elif least > -MAX_BIGINT:
        bounds = f" of at least {least}"

    def parse(name: str, text: str) -> int:
        if (number := whole_in(text)) is None or not least <= number <= most:
            raise BadFilter(name, text, f"it has to be a whole number{bounds}, such as 12")
        return number

    return parse


whole = whole_from(-MAX_BIGINT)
count_in = whole_from(0)


def definition_in(query: Mapping[str, str]) -> DefinitionOverrides:
    """Return the parts of a definition that an address gives. Raises: BadFilter."""
    parts: dict[str, Any] = {
        name: given(query, name, chosen(legal)) for name, legal in CONVENTION_PARTS.items()
    }
    return DefinitionOverrides(
        given(query, "return", chosen(RETURNS)), given(query, "threshold", real), **parts
    )


class WholeRange(NamedTuple):
    """Whole numbers, both ends included; written `7`, or `7..9`."""

    low: int
    high: int

    def __str__(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low}..{self.high}"


class LabelValue(NamedTuple):
    """A value that a label has to have, or several with commas between them, of which it has one:
    `seed=3,4`."""

    name: str
    value: str

    @property
    def values(self) -> list[str]:
        """The values, and the whole text: a value may have commas within."""
        return list(dict.fromkeys([self.value, *map(trimmed, self.value.split(","))]))


class LabelValues(tuple[LabelValue, ...]):
    """Values of several labels, written `seed=3,4;arm=b`."""

    __slots__ = ()

    def __str__(self) -> str:
        return ";".join(f"{label.name}={label.value}" for label in self)


def label_values(name: str, text: str) -> LabelValues:
    parts = [part.partition("=") for part in any_text(name, text).split(";") if part.strip()]
    labels = [LabelValue(trimmed(label), trimmed(value)) for label, _, value in parts]
    if not labels or not all(label.name and label.value for label in labels):
        raise BadFilter(
            name,
            text,
            "it has to be a label and a value, several with ; between them: seed=3,4;arm=b",
        )
    return LabelValues(labels)


def stretch(name: str, text: str) -> WholeRange:
    low, dots, high = text.partition("..")
    try:
        limits = WholeRange(whole(name, low), whole(name, high if dots else low))
    except BadFilter:
        raise BadFilter(
            name, text, "it has to be a whole number, such as 12, or two, such as 7..9"
        ) from None
    if limits.low > limits.high:
        raise BadFilter(name, text, f"{limits.low} is above {limits.high}; swap the two")
    return limits


class WholeRanges(tuple[WholeRange, ...]):
    """Several ranges of whole numbers; written `3..5,9`."""

    __slots__ = ()

    def __str__(self) -> str:
        return ",".join(map(str, self))


MAX_RANGES = 100


def stretches(name: str, text: str) -> WholeRanges:
    """Return the ranges in a parameter, up to MAX_RANGES of them."""
    parts = text.split(",")
    if len(parts) > MAX_RANGES:
        raise BadFilter(name, text, f"it has {len(parts)} ranges; up to {MAX_RANGES} are allowed")
    return WholeRanges(stretch(name, trimmed(part)) for part in parts)


def real(name: str, text: str) -> float:
    value = math.nan if number_in(text) is None else float(text)
    if not math.isfinite(value):
        raise BadFilter(name, text, "it has to be a number, such as 0.5 or -1")
    return value


def span(name: str, text: str) -> str:
    if not _SPAN.fullmatch(text):
        raise BadFilter(name, text, "it has to be a span before now, such as 30m, 24h, 90d or 12w")
    return text


def moment(name: str, text: str) -> str:
    """Return the text of a time with a plus sign before its offset, which decoding an address turns
    into a blank."""
    if text.count(":") > 1:
        text = re.sub(r" (?=\d\d:?\d\d\Z)", "+", text)
    if _SPAN.fullmatch(text):
        return text
    try:
        datetime.fromisoformat(text)
    except ValueError:
        legal = (
            "it has to be a date (2026-01-31), a time (2026-01-31T12:00) or a span before now "
            "(30m, 24h, 7d, 2w)"
        )
        raise BadFilter(name, text, legal) from None
    return text
