"""What people type to search tasks: words, phrases, a hash, and tests of fields such as `difficulty:3` or `answer>10`.

    name:value            the field is this number, true, false, null or text; upper and lower case are the same
    name:"two words"      the field is this text, even if it looks like a number
    name~word             the field is a text that holds this one
    name>1  name>=1 …     the field is a number, and greater than, at least, less than or at most this one

`grid.size` is a member of an object. A test is asked of each task that the other filters leave, as words are, so that a
page reads no more of a large split for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from django.db.models import CharField, F, FloatField, Func, Q
from django.db.models.lookups import (
    Exact,
    GreaterThan,
    GreaterThanOrEqual,
    IContains,
    IExact,
    LessThan,
    LessThanOrEqual,
)

from environments.database.storable import is_storable

MAX_WORDS = 20
_TERMS = re.compile(
    r'(?P<name>[A-Za-z_][\w-]*(?:\.[\w-]+)*)(?P<operator>:(?!//)|[<>]=?|~)(?:"(?P<text>[^"]*)"|(?P<value>[^\s"=]\S*))'
    r'|"(?P<phrase>[^"]+)"|(?P<word>\S+)',
    re.ASCII,
)
_HASH = re.compile("[0-9a-f]{8,64}")
_NUMBER = re.compile(r"-?\d{1,300}(?:\.\d{1,300})?(?:[eE][+-]?\d{1,2})?", re.ASCII)
_ORDERS = {">": GreaterThan, ">=": GreaterThanOrEqual, "<": LessThan, "<=": LessThanOrEqual}
LITERALS = ("true", "false", "null")


@dataclass(frozen=True, slots=True)
class FieldTest:
    """A test of one field of a task's content."""

    name: str
    """Names joined by dots."""
    operator: Literal[":", "~", ">", ">=", "<", "<="] | str
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
        if self.is_text or not _NUMBER.fullmatch(self.value):
            return None
        is_whole = len(self.value) <= 15 and self.value.removeprefix("-").isdecimal()
        return int(self.value) if is_whole else float(self.value)

    def condition(self) -> Q:
        """Return the condition on Task."""
        number = self.number
        if not is_storable(self.value) or (self.is_order and number is None):
            return Q(pk__in=())
        if self.is_order:
            return Q(_ORDERS[self.operator](SpecMember(self.name, "number"), number))
        text = SpecMember(self.name, "text")
        if self.operator == "~":
            return Q(IContains(text, self.value))
        found = Q(IExact(text, self.value))
        if number is not None:
            return found | Q(Exact(SpecMember(self.name, "number"), number))
        is_literal = not self.is_text and self.value in LITERALS
        return found | Q(Exact(SpecMember(self.name, "literal"), self.value)) if is_literal else found


def field_tests(search: str) -> list[FieldTest]:
    """Return the tests of fields in what somebody typed."""
    return [term for term in _terms(search) if isinstance(term, FieldTest)]


def matches(search: str) -> Q:
    """Return the condition for tasks that satisfy all terms of the text, in any order, or whose hash begins so.

    Words in double quotes are looked for as one phrase, and so is a text of more than MAX_WORDS terms.
    """
    terms, found = list(_terms(search)), Q()
    for term in terms if len(terms) <= MAX_WORDS else [search]:
        found &= term.condition() if isinstance(term, FieldTest) else _contains(term)
    return found | Q(content_hash__startswith=search) if _HASH.fullmatch(search) else found


def _terms(search: str) -> Iterator[FieldTest | str]:
    for found in _TERMS.finditer(search):
        if name := found["name"]:
            text, value = found["text"], found["value"]
            yield FieldTest(name, found["operator"], value if text is None else text, is_text=text is not None)
        else:
            yield found["phrase"] or found["word"]


def _contains(text: str) -> Q:
    """Return the condition for tasks whose spec holds the text, as it is or as JSON escapes it within a string."""
    written = json.dumps(text)[1:-1]
    escaped = Q(spec__icontains=written)
    return escaped if written == text or not is_storable(text) else escaped | Q(spec__icontains=text)


_SQLITE = {
    "number": "CASE WHEN {kind} IN ('integer', 'real') THEN json_extract({spec}, '{path}') END",
    "text": "CASE WHEN {kind} = 'text' THEN json_extract({spec}, '{path}') END",
    "literal": "CASE WHEN {kind} IN ('true', 'false', 'null') THEN {kind} END",
}
# The pattern leaves out numbers beyond those that a double can hold, which would be errors.
_POSTGRESQL = {
    "number": "CASE WHEN json_typeof(v) = 'number' AND v::text ~ "
    r"'^-?([0-9]{1,250}(\.[0-9]{1,250})?|[0-9]{1,3}(\.[0-9]{1,20})?[eE][+-]?([012]?[0-9]{1,2}|30[0-5]))$' "
    "THEN v::text::double precision END",
    "text": "CASE WHEN json_typeof(v) = 'string' THEN v #>> '{}' END",
    "literal": "CASE WHEN json_typeof(v) IN ('boolean', 'null') THEN v::text END",
}
_HIGH, _LOW = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
# PostgreSQL cannot read escapes of NUL and of halves of surrogate pairs, so they become U+FFFD.
_READABLE = f"regexp_replace(%s, '\\\\u0000|{_HIGH}(?!{_LOW})|(?<!{_HIGH}){_LOW}', '\\\\ufffd', 'g')"
# OFFSET 0 makes the planner compute the value once.
_MEMBER = (
    r"(SELECT {found} FROM (SELECT (CASE WHEN strpos({spec}, '\u') > 0 THEN {readable} ELSE {spec} END)::json"
    " #> '{path}' AS v OFFSET 0) AS member)"
)


class SpecMember(Func):
    """A member of a task's content, if it is a number, a text, or a literal (`true`, `false`, `null`); else NULL."""

    def __init__(self, name: str, kind: Literal["number", "text", "literal"]) -> None:
        super().__init__(F("spec"), output_field=FloatField() if kind == "number" else CharField())
        self._names, self._kind = name.split("."), kind

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> tuple[str, tuple[Any, ...]]:
        spec, parameters = compiler.compile(self.source_expressions[0])
        path = "$" + "".join(f'."{name}"' for name in self._names)
        kind = f"CASE WHEN json_valid({spec}) THEN json_type({spec}, '{path}') END"
        return f"({_SQLITE[self._kind].format(kind=kind, spec=spec, path=path)})", tuple(parameters)

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> tuple[str, tuple[Any, ...]]:
        spec, parameters = compiler.compile(self.source_expressions[0])
        path = "{" + ",".join(self._names) + "}"
        found, readable = _POSTGRESQL[self._kind], _READABLE % spec
        return _MEMBER.format(found=found, spec=spec, readable=readable, path=path), tuple(parameters)
