"""Searches for a part of a text without regard to case and accents, alike in each database.

Databases fold the case of ASCII letters alike, so they search what is in ASCII. Other texts are
read and folded here, unless a column has them folded already (`environments.models.folding`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import BooleanField, F, Func, Q, QuerySet, TextField
from django.db.models.expressions import Combinable
from django.db.models.lookups import Contains

from environments.database.json_rows import among
from environments.database.storable import storable
from environments.models.folding import fold, fold_all_json, fold_term


class AsciiLower(Func):
    """A text with its ASCII letters in lower case."""

    function = "LOWER"
    output_field = TextField()

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(
            compiler, connection, template='LOWER((%(expressions)s) COLLATE "C")', **context
        )


def contains(text: Combinable, term: str) -> Q:
    """Return the condition that a text, which is folded or in ASCII, contains the folded `term`."""
    return Q(Contains(AsciiLower(text), term))


def is_foreign(column: str) -> Q:
    """Return the condition that a column has characters that are not in ASCII, so that a database
    cannot fold it."""
    return Q(_IsForeign(F(column)))


def holding(
    rows: QuerySet[Any], text: str, columns: Sequence[str], json_columns: Sequence[str] = ()
) -> Q:
    """Return the condition for those of `rows` that have `text` in a column, or in a string of a
    column with JSON.

    Reads all texts that are not in ASCII, so the rows must be few, or few of them such.
    """
    term, json_term = fold(storable(text)), fold_term(text)
    foreign = [is_foreign(name) for name in columns]
    foreign += [is_foreign(name) | Q(**{f"{name}__contains": "\\u"}) for name in json_columns]
    texts = rows.filter(reduce(or_, foreign)).order_by().values_list("pk", *columns, *json_columns)
    matches = [
        pk
        for pk, *values in texts.iterator(chunk_size=100)
        if any(term in fold(value or "") for value in values[: len(columns)])
        or any(json_term in fold_all_json(value or "") for value in values[len(columns) :])
    ]
    condition = among("pk", matches)
    if term.isascii():
        for name in columns:
            condition |= contains(F(name), term)
    if json_term.isascii():
        for name in json_columns:
            condition |= contains(F(name), json_term)
    return condition


class _IsForeign(Func):
    """Whether a text is not in ASCII."""

    output_field = BooleanField()

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        column, values = compiler.compile(self.source_expressions[0])
        return f"(LENGTH(CAST({column} AS BLOB)) <> LENGTH({column}))", (*values, *values)

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        column, values = compiler.compile(self.source_expressions[0])
        return f"(OCTET_LENGTH({column}) <> LENGTH({column}))", (*values, *values)
