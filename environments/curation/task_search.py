"""What people type to search tasks: words, phrases, a hash, and tests of fields such as
`difficulty:3` or `answer>10`.

    name:value            the field is this number, true, false, null or text; case and accents do not matter
    name:"two words"      the field is this text, even if it looks like a number
    name~word             the field is a text that holds this one
    name>1  name>=1 …     the field is a number, and greater than, at least, less than or at most this one

`grid.size` is a member of an object. A test is asked of each task that the other filters leave, as
words are, so that a page reads no more of a large split for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from django.db.models import BooleanField, CharField, F, Func, Q, TextField
from django.db.models.functions import Coalesce
from django.db.models.lookups import Contains, Exact

from environments.database.folding import contains
from environments.database.storable import double_of, is_storable, number_in, storable
from environments.models.folding import fold, fold_term

MAX_WORDS = 20
MAX_DIGITS = 100_000
"""Digits that PostgreSQL reads as a number; its limit is 131,072."""
_TERMS = re.compile(
    r'(?P<name>[A-Za-z_][\w-]*(?:\.[\w-]+)*)(?P<operator>:(?!//)|[<>]=?|~)(?:"(?P<text>[^"]*)"|(?P<value>[^\s"=]\S*))'
    r'|"(?P<phrase>[^"]+)"|(?P<word>\S+)',
    re.ASCII,
)
_HASH = re.compile("[0-9a-f]{8,64}")
_ORDERS = (">", ">=", "<", "<=")
OPERATORS = (":", "~", *_ORDERS)
LITERALS = ("true", "false", "null")


@dataclass(frozen=True, slots=True)
class FieldTest:
    """A test of one field of a task's content."""

    name: str
    """Names joined by dots."""
    operator: Literal[":", "~", ">", ">=", "<", "<="] | str
    """One of OPERATORS."""
    value: str
    is_text: bool = False
    """Whether the value was in quotes, so that it is a text."""

    def __str__(self) -> str:
        return f"{self.name}{self.operator}{json.dumps(self.value) if self.is_text else self.value}"

    @property
    def is_order(self) -> bool:
        """Return whether it compares numbers."""
        return self.operator in _ORDERS

    @property
    def number(self) -> float | int | None:
        """Return the value as a number; None if it is none."""
        return None if self.is_text else number_in(self.value)

    def condition(self) -> Q:
        """Return the condition on Task."""
        number = self.number
        if not is_storable(self.value) or (self.is_order and number is None):
            return Q(pk__in=())
        if self.is_order and number is not None:
            return Q(SpecNumber(self.name, self.operator, number))
        text = SpecMember(self.name, "text")
        if self.operator == "~":
            return Q(Contains(text, fold(self.value)))
        is_same = Q(Exact(text, fold(self.value)))
        if number is not None:
            return is_same | Q(SpecNumber(self.name, "=", number))
        is_literal = not self.is_text and self.value in LITERALS
        return (
            is_same | Q(Exact(SpecMember(self.name, "literal"), self.value))
            if is_literal
            else is_same
        )


def field_tests(search: str) -> list[FieldTest]:
    """Return the tests of fields in what somebody typed."""
    return [term for term in _terms(search) if isinstance(term, FieldTest)]


def empty_term(search: str) -> str:
    """Return the first term that every text contains, such as an accent alone; empty if there is
    none."""
    for term in _terms(search):
        text = term.value if isinstance(term, FieldTest) and term.operator == "~" else term
        if isinstance(text, str) and not fold(text).strip():
            return str(term)
    return ""


def matches(search: str) -> Q:
    """Return the condition for tasks that satisfy all terms of the text, in any order, or whose
    hash begins so.

    Words in double quotes are looked for as one phrase, and so is a text of more than MAX_WORDS
    terms.
    """
    terms, condition = list(_terms(search)), Q()
    for term in terms if len(terms) <= MAX_WORDS else [search]:
        condition &= term.condition() if isinstance(term, FieldTest) else _contains(term)
    return condition | Q(content_hash__startswith=search) if _HASH.fullmatch(search) else condition


def _terms(search: str) -> Iterator[FieldTest | str]:
    for match in _TERMS.finditer(search):
        if name := match["name"]:
            text, value = match["text"], match["value"]
            yield FieldTest(
                name, match["operator"], value if text is None else text, is_text=text is not None
            )
        else:
            yield match["phrase"] or match["word"]


def _contains(text: str) -> Q:
    """Return the condition for tasks whose spec holds the text, within a string or as JSON writes
    it."""
    term, plain = fold_term(text), fold(storable(text))
    condition = contains(_spec(), term)
    return (
        condition
        if term == plain
        else condition | contains(_spec(), plain) | contains(F("spec"), plain)
    )


_SQLITE = {
    "text": "CASE WHEN {kind} = 'text' THEN LOWER(json_extract({spec}, '{path}')) END",
    "literal": "CASE WHEN {kind} IN ('true', 'false', 'null') THEN {kind} END",
}
_POSTGRESQL = {
    "text": "CASE WHEN json_typeof(v) = 'string' THEN LOWER((v #>> '{}') COLLATE \"C\") END",
    "literal": "CASE WHEN json_typeof(v) IN ('boolean', 'null') THEN v::text END",
}
# The pattern leaves out numbers beyond those that a double can hold, which would be errors.
_DOUBLE = r"'^-?([0-9]{1,250}[0-9]{0,50}(\.[0-9]{1,250})?|[0-9]{1,3}(\.[0-9]{1,20})?[eE][+-]?([012]?[0-9]{1,2}|30[0-5]))$'"  # noqa: E501
# OFFSET 0 makes the planner compute the value once.
_MEMBER = "(SELECT {found} FROM (SELECT ({spec})::json #> '{path}' AS v OFFSET 0) AS member)"


def _spec() -> Coalesce:
    """Return the expression of a task's content that both databases can read, however it was
    escaped."""
    return Coalesce(F("folded"), F("spec"), output_field=TextField())


class SpecMember(Func):
    """A member of a task's content, if it is a text or a literal (`true`, `false`, `null`); else
    NULL."""

    output_field = CharField()

    def __init__(self, name: str, kind: Literal["text", "literal"]) -> None:
        super().__init__(_spec())
        self._name, self._kind = name, kind

    def as_sqlite(
        self, compiler: Any, connection: Any, **context: Any
    ) -> tuple[str, tuple[Any, ...]]:
        spec, _ = compiler.compile(self.source_expressions[0])
        return _sqlite_member(_SQLITE[self._kind], spec, self._name), ()

    def as_postgresql(
        self, compiler: Any, connection: Any, **context: Any
    ) -> tuple[str, tuple[Any, ...]]:
        spec, _ = compiler.compile(self.source_expressions[0])
        return _postgresql_member(_POSTGRESQL[self._kind], spec, self._name), ()


class SpecNumber(Func):
    """Whether a member of a task's content is a number that is greater than another one, equal to
    it, or so.

    Two whole numbers are compared digit by digit, at any size. Numbers that are written with a
    point or an exponent, here or there, are compared as doubles.
    """

    output_field = BooleanField()

    def __init__(self, name: str, operator: str, number: float) -> None:
        super().__init__(_spec())
        self._name, self._operator, self._number = name, operator, number

    def as_sqlite(
        self, compiler: Any, connection: Any, **context: Any
    ) -> tuple[str, tuple[Any, ...]]:
        spec, _ = compiler.compile(self.source_expressions[0])
        as_double = f"CAST(json_extract({{spec}}, '{{path}}') AS REAL) {self._operator} %s"
        whole, values = as_double, (double_of(self._number),)
        if isinstance(self._number, int):
            whole = _digits_compared("({spec} -> '{path}')", self._number) + f" {self._operator} 0"
        template = f"CASE {{kind}} WHEN 'integer' THEN {whole} WHEN 'real' THEN {as_double} END"
        return _sqlite_member(template, spec, self._name), values * template.count("%s")

    def as_postgresql(
        self, compiler: Any, connection: Any, **context: Any
    ) -> tuple[str, tuple[Any, ...]]:
        spec, _ = compiler.compile(self.source_expressions[0])
        comparison = f"WHEN v::text ~ {_DOUBLE} THEN v::text::double precision {self._operator} %s"
        values: tuple[Any, ...] = (double_of(self._number),)
        if isinstance(self._number, int):
            is_whole = f"v::text ~ '^-?[0-9]+$' AND length(v::text) < {MAX_DIGITS}"
            comparison = (
                f"WHEN {is_whole} THEN v::text::numeric {self._operator} {self._number}::numeric "
                f"{comparison}"
            )
        comparison = f"CASE WHEN json_typeof(v) = 'number' THEN CASE {comparison} END END"
        return _postgresql_member(comparison, spec, self._name), values


def _sqlite_member(template: str, spec: str, name: str) -> str:
    path = "$" + "".join(f'."{part}"' for part in name.split("."))
    kind = f"CASE WHEN json_valid({spec}) THEN json_type({spec}, '{path}') END"
    return f"({template.format(kind=kind, spec=spec, path=path)})"


def _postgresql_member(expression: str, spec: str, name: str) -> str:
    return _MEMBER.format(found=expression, spec=spec, path="{" + ",".join(name.split(".")) + "}")


def _digits_compared(text: str, number: int) -> str:
    """Return SQL that compares the digits of a whole number with another one: below 0, 0, or above,
    as that is less, equal, or greater. `text`: SQL of the number as JSON writes it, so without
    zeros before it.
    """
    digits, size = str(abs(number)), f"LTRIM({text}, '-')"
    sizes = (
        f"CASE WHEN LENGTH({size}) <> {len(digits)} THEN LENGTH({size}) - {len(digits)}"
        f" WHEN {size} < '{digits}' THEN -1 ELSE {size} > '{digits}' END"
    )
    is_negative = f"{text} < '0' AND {text} <> '-0'"  # "-" comes before every digit
    if number < 0:
        return f"(CASE WHEN {is_negative} THEN -({sizes}) ELSE 1 END)"
    return f"(CASE WHEN {is_negative} THEN -1 ELSE {sizes} END)"
