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
from sys import float_info
from typing import Any, Literal

from django.db.models import BooleanField, CharField, F, Func, Q, TextField
from django.db.models.functions import Coalesce
from django.db.models.lookups import Contains, Exact

from environments.database.folding import contains
from environments.database.storable import is_storable, number_in, storable
from environments.models.folding import fold, fold_term

MAX_WORDS = 20
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
        if not is_storable(self.value) or (self.is_order and self.number is None):
            return Q(pk__in=())
        text = SpecMember(self.name, _TEXT)
        if self.operator == "~":
            return Q(Contains(text, fold(self.value)))
        condition = Q() if self.is_order else Q(Exact(text, fold(self.value)))
        if self.number is not None:
            operator = self.operator if self.is_order else "="
            number = min(max(self.number, -float_info.max), float_info.max)
            condition |= Q(SpecMember(self.name, _COMPARISON, operator=operator, number=number))
        elif not self.is_text and self.value in LITERALS:
            condition |= Q(Exact(SpecMember(self.name, _LITERAL), self.value))
        return condition


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


_TEXT = (
    "CASE WHEN {kind} = 'text' THEN LOWER(json_extract({spec}, '{path}')) END",
    "CASE WHEN json_typeof(v) = 'string' THEN LOWER((v #>> '{{}}') COLLATE \"C\") END",
)
_LITERAL = (
    "CASE WHEN {kind} IN ('true', 'false', 'null') THEN {kind} END",
    "CASE WHEN json_typeof(v) IN ('boolean', 'null') THEN v::text END",
)
# The pattern leaves out numbers beyond those that a double can hold.
_DOUBLE = r"'^-?([0-9]{{1,250}}[0-9]{{0,50}}(\.[0-9]{{1,250}})?|[0-9]{{1,3}}(\.[0-9]{{1,20}})?[eE][+-]?([012]?[0-9]{{1,2}}|30[0-5]))$'"  # noqa: E501
_COMPARISON = (
    "CASE WHEN {kind} IN ('integer', 'real') "
    "THEN json_extract({spec}, '{path}') {operator} {number} END",
    f"CASE WHEN v::text ~ {_DOUBLE} THEN v::text::numeric {{operator}} ({{number}})::numeric END",
)
"""What a member is, if it is of that kind, else NULL: of SQLite, and of PostgreSQL, where `v` is the
member. SQLite compares whole numbers beyond 64 bits as doubles."""


def _spec() -> Coalesce:
    """Return the expression of a task's content that both databases can read, however it was
    escaped."""
    return Coalesce(F("folded"), F("spec"), output_field=TextField())


class SpecMember(Func):
    """A member of a task's content, as one of the forms above."""

    def __init__(self, name: str, form: tuple[str, str], **values: Any) -> None:
        super().__init__(_spec(), output_field=BooleanField() if values else CharField())
        self._names = name.split(".")
        self._sqlite, self._postgresql = form
        self._values = values

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> tuple[str, tuple[()]]:
        spec, _ = compiler.compile(self.source_expressions[0])
        path = "$" + "".join(f'."{name}"' for name in self._names)
        kind = f"CASE WHEN json_valid({spec}) THEN json_type({spec}, '{path}') END"
        return f"({self._sqlite.format(kind=kind, spec=spec, path=path, **self._values)})", ()

    def as_postgresql(
        self, compiler: Any, connection: Any, **context: Any
    ) -> tuple[str, tuple[()]]:
        spec, _ = compiler.compile(self.source_expressions[0])
        # OFFSET 0 makes the planner compute the value once.
        member = f"SELECT ({spec})::json #> '{{{','.join(self._names)}}}' AS v OFFSET 0"
        form = self._postgresql.format(**self._values)
        return f"(SELECT {form} FROM ({member}) AS member)", ()  # nosec B608 # names and numbers
