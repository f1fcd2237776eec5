"""The values in the configuration of a run by name, and conditions on them such as
`temperature>0.7`."""

from __future__ import annotations

import json
import math
import operator
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from environments.database.storable import double_of, number_in, storable_json
from environments.filtering.parameters import BadFilter, any_text, trimmed

MAX_VALUES = 500
"""Values of one configuration that have a name; the others can be neither columns nor in
conditions."""
CONFIGS_AT_ONCE = 100
"""Configurations of many runs that are in memory at a time, because each may have 256 KB."""
MAX_IN_DIGITS = 1e21
"""Whole numbers below are written in digits, as in JavaScript, also those with a point or an
exponent."""
Scalar = str | float | int | bool | None
_CONDITION = re.compile(
    r"[ \t]*([^<>=!\s][^<>=!]*?)[ \t]*(>=|<=|!=|=|>|<)[ \t]*(\S.*?)[ \t]*", re.DOTALL
)
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


def config_values(config: str) -> dict[str, Scalar]:
    """Return the values of a stored configuration, in order. A value within an object is named
    `optimizer.lr`.

    A list is one value, its JSON text.
    """
    scalars: dict[str, Scalar] = {}
    values = json.loads(storable_json(config)) if config else {}
    open_objects: list[tuple[str, Any]] = list(reversed(values.items()))
    while open_objects and len(scalars) < MAX_VALUES:
        name, value = open_objects.pop()
        if isinstance(value, dict):
            open_objects += [(f"{name}.{key}", part) for key, part in reversed(value.items())]
        else:
            scalars[name] = _scalar(value)
    return scalars


def named_values(config: str, names: Collection[str]) -> dict[str, Scalar]:
    """Return those of `config_values` that have these names, in a fifth of the time."""
    values = json.loads(storable_json(config)) if config else {}
    return {name: value for name in names for value in _named(values, name)}


def _named(values: Mapping[str, Any], name: str) -> Iterator[Scalar]:
    if name in values and not isinstance(value := values[name], dict):
        yield _scalar(value)
    if "." in name:
        for key, part in values.items():
            if isinstance(part, dict) and name.startswith(f"{key}."):
                yield from _named(part, name[len(key) + 1 :])


def _scalar(value: Any) -> Scalar:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value


def value_text(value: Scalar) -> str:
    """Return a value as pages and conditions write it: true, null, 1e-05, or the text itself. Equal
    numbers have the same text: 1 for 1.0."""
    if isinstance(value, float) and value.is_integer() and abs(value) < MAX_IN_DIGITS:
        value = int(value)
    return value if isinstance(value, str) else json.dumps(value)


def place_of_value(value: Scalar) -> tuple[int, float, str] | None:
    """Return the place of a value in an order: numbers come before texts."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return 0, value, ""
    return None if value is None else (1, 0, str(value))


def runs_by_values(
    values: Mapping[int, Sequence[Scalar]],
) -> dict[tuple[str | None, ...], list[int]]:
    """Return the ids of the runs with the same values, by their texts: numbers first, by size, last
    None for runs without a value.

    `values`: of each run, by its id.
    """
    runs = defaultdict[tuple[str | None, ...], list[int]](list)
    places = dict[tuple[str | None, ...], list[tuple[int, float, str]]]()
    for run, row in values.items():
        texts = tuple(None if value is None else value_text(value) for value in row)
        runs[texts].append(run)
        places[texts] = [place_of_value(value) or (2, 0, "") for value in row]
    return {texts: runs[texts] for texts in sorted(runs, key=places.__getitem__)}


@dataclass(frozen=True, slots=True)
class ConfigCondition:
    """A condition on one value of a configuration. A run that lacks the value never meets it."""

    name: str
    sign: str
    """One of = != > >= < <=."""
    text: str
    """What the value is compared with: a number, or, for = and !=, a text or several with commas
    between them."""

    @classmethod
    def parse(cls, parameter: str, text: str) -> ConfigCondition:
        """Return the condition in a parameter of an address. Raises: BadFilter."""
        match = _CONDITION.fullmatch(any_text(parameter, text))
        if match is None:
            raise BadFilter(
                parameter,
                text,
                "it has to be a name, a sign and a value: temperature>0.7, optimizer=adam,sgd",
            )
        name, sign, value = match.groups()
        if wrong := next(filter(_is_other_number, [value, *map(trimmed, value.split(","))]), ""):
            raise BadFilter(
                parameter,
                text,
                f"{wrong} is no number that a configuration has; write it as in 17, -0.5 or 1e-5",
            )
        if sign in _ORDERS and number_in(value) is None:
            raise BadFilter(
                parameter, text, f"{sign} compares numbers; for texts there are = and !="
            )
        return cls(name, sign, value)

    def is_met(self, config: Mapping[str, Scalar]) -> bool:
        if self.name not in config:
            return False
        value = config[self.name]
        if self.sign in _ORDERS:
            order = _order(value, self.text)
            return order is not None and _ORDERS[self.sign](order, 0)
        texts = [self.text, *map(trimmed, self.text.split(","))]  # a list has commas within
        is_equal = any(value_text(value) == text or _order(value, text) == 0 for text in texts)
        return is_equal is (self.sign == "=")

    def __str__(self) -> str:
        return f"{self.name}{self.sign}{self.text}"


def _is_other_number(text: str) -> bool:
    """Return whether Python reads a number in the text and JSON none: NaN, infinity, 1_000, digits
    of other scripts."""
    with suppress(ValueError):
        return number_in(text) is None and float(text) is not None
    return False


def _order(value: Scalar, text: str) -> int | None:
    """Return -1, 0 or 1 for a value that is less than the number in the text, equal or greater;
    None without numbers.

    Whole numbers are equal only if all of their digits are. Where a side has a point or an
    exponent, nearly is enough: 3 * 1e-5 was computed and 3e-5 is written.
    """
    number = number_in(text)
    if number is None or isinstance(value, bool) or not isinstance(value, int | float):
        return None
    is_exact = isinstance(value, int) and isinstance(number, int)
    if value == number or (
        not is_exact and math.isclose(double_of(value), double_of(number), rel_tol=1e-9)
    ):
        return 0
    return 1 if value > number else -1
