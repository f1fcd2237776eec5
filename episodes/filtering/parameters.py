"""Words of an address: what a parameter's text means, or a sentence about why it means nothing.

Each parser takes the parameter's name and its text and raises BadFilter. Used by `filters.py` and `cursor.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from environments.database.storable import MAX_BIGINT, is_storable
from environments.errors import OrsError, nearest, shorten

"""Of a whole number: what the databases hold."""
_SPAN = re.compile(r"[0-9]{1,5}[mhdw]")


class BadFilter(OrsError):
    """A parameter that cannot be meant; pages and the API answer 400. `allowed`: why, and what is legal."""

    def __init__(self, field: str, value: object, allowed: str) -> None:
        super().__init__(f"{field}={shorten(str(value), 80)!r} cannot be used: {allowed}.")
        self.field, self.value, self.allowed = field, str(value), allowed


def unknown_name(name: str, value: object, known: Collection[str], what: str = "parameter") -> BadFilter:
    """What to raise for a parameter that nobody knows; `what`: it would have been."""
    if not known:
        return BadFilter(name, value, f"no {what} has that name, for there are none here")
    return BadFilter(name, value, f"no {what} has that name.{nearest(name, known)} There are {', '.join(known)}")


def words(name: str, text: str) -> str:
    if not is_storable(text):
        raise BadFilter(name, text, "it holds a character that no recorded text can have")
    return text


def person(name: str, text: str) -> str:
    """A person as their episodes name them, which no label of an agent's key does."""
    if not words(name, text).startswith("@"):
        raise BadFilter(name, text, "people's names begin with @, such as @alice; Who played what lists them")
    return text


def chosen(legal: Sequence[str]) -> Callable[[str, str], str]:
    def parse(name: str, text: str) -> str:
        if text not in legal:
            raise BadFilter(name, text, f"allowed are {', '.join(legal)}")
        return text

    return parse


def flag(name: str, text: str) -> bool:
    return chosen(("yes", "no"))(name, text) == "yes"


def whole(name: str, text: str) -> int:
    return _integer(name, text, -MAX_BIGINT)


class WholeRange(NamedTuple):
    """Whole numbers, both ends included; written `7`, or `7..9`."""

    low: int
    high: int

    def __str__(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low}..{self.high}"


def stretch(name: str, text: str) -> WholeRange:
    low, dots, high = text.partition("..")
    try:
        found = WholeRange(whole(name, low), whole(name, high if dots else low))
    except BadFilter:
        raise BadFilter(name, text, "it has to be a whole number, such as 12, or two, such as 7..9") from None
    if found.low > found.high:
        raise BadFilter(name, text, f"{found.low} is above {found.high}; exchange the two")
    return found


def count_in(name: str, text: str) -> int:
    """A whole number of at least 0."""
    return _integer(name, text, 0)


def _integer(name: str, text: str, least: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if not least <= value <= MAX_BIGINT:
        raise BadFilter(name, text, f"it has to be a whole number{'' if least else ' of at least 0'}, such as 12")
    return value


def real(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise BadFilter(name, text, "it has to be a number, such as 0.5 or -1")
    return value


def moment(name: str, text: str) -> str:
    """The text in one spelling. A plus sign that the address made a blank is taken for what it was."""
    text = re.sub(r" (?=\d\d:?\d\d$)", "+", text) if text.count(":") > 1 else text
    if _SPAN.fullmatch(text):
        return text
    try:
        if not 1 < datetime.fromisoformat(text).astimezone(UTC).year < 9999:
            raise OverflowError
    except (ValueError, OverflowError):
        legal = "it has to be a date (2026-01-31), a time (2026-01-31T12:00) or a span before now (30m, 24h, 7d, 2w)"
        raise BadFilter(name, text, legal) from None
    return text
