"""Statements over many rows, which Django's ORM does not offer. Used by imports, syncs and
curation.

Rows are passed as one JSON array: several times as fast as rows made by the ORM, and the same text
on both databases.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.db import connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import F, Lookup, Model, Q

from environments.models import Environment

ID_LISTS = {
    "sqlite": "SELECT value FROM json_each(%s)",
    "postgresql": "SELECT CAST(value AS bigint) FROM json_array_elements_text(%s::json)",
}
"""By database: a SELECT of the ids in its parameter, which is a JSON array of integers."""
_AMONG: dict[str, tuple[str, Callable[[list[Any]], Any]]] = {
    "sqlite": ("IN (SELECT value FROM json_each(%s))", json.dumps),
    "postgresql": ("= ANY(%s)", list),
}
"""By database: the condition that a value is one of those in a parameter, and the function that
returns the parameter."""
_ROWS = {"sqlite": "json_each(%s)", "postgresql": "json_array_elements(%s::json)"}


def execute(statement: str, parameters: Sequence[Any], rows: Sequence[Any]) -> None:
    """Execute `statement`, in which `{rows}`, after its other parameters, is a table with a row in
    each `value`.

    The cells of a row are `value->>0` and so on, as text. An INSERT needs a final WHERE true,
    without which SQLite takes ON CONFLICT for a join condition.
    """
    if not rows:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            statement.format(rows=_ROWS[connection.vendor]), [*parameters, json.dumps(rows)]
        )


def rows_among(
    select: str, parameters: Sequence[Any], values: Iterable[Any]
) -> list[tuple[Any, ...]]:
    """Return the rows of `select`, in which `{among}` follows a column and means that it has one of
    `values`.

    `parameters` are those before that. Django's `__in` takes several times the CPU for hundreds of
    values.
    """
    condition, as_parameter = _AMONG[connection.vendor]
    with connection.cursor() as cursor:
        cursor.execute(select.format(among=condition), [*parameters, as_parameter(list(values))])
        return list(cursor.fetchall())


def among(field: str, values: Iterable[Any]) -> Q:
    """Return the condition that a field of a queryset has one of hundreds of values, which are sent
    as one parameter.

    Django's `__in` sends each on its own, which takes most of the CPU of a batch.
    """
    return Q(_Among(F(field), list(values)))


class _Among(Lookup):
    lookup_name = "among"
    prepare_rhs = False

    def as_sql(self, compiler: Any, connection: BaseDatabaseWrapper) -> tuple[str, tuple[Any, ...]]:
        column, parameters = self.process_lhs(compiler, connection)
        condition, as_parameter = _AMONG[connection.vendor]
        return f"{column} {condition}", (*parameters, as_parameter(self.rhs))


# a loose index scan: SELECT DISTINCT would read the entries of a million rows for a dozen values
_DISTINCT = """
    WITH RECURSIVE found(value) AS (
        SELECT MIN({column}) FROM {table} WHERE NOT ({column} = '')
        UNION ALL
        SELECT (SELECT MIN({column}) FROM {table} WHERE NOT ({column} = '') AND {column} > found.value)
        FROM found WHERE found.value IS NOT NULL
    )
    SELECT value FROM found WHERE value IS NOT NULL LIMIT %s
"""


def distinct_values(model: type[Model], column: str, most: int) -> list[str]:
    """Return the first `most` texts in a column, in the database's order, without the empty
    text."""
    quote = connection.ops.quote_name
    with connection.cursor() as cursor:
        cursor.execute(
            _DISTINCT.format(column=quote(column), table=quote(model._meta.db_table)), [most]
        )
        return [value for (value,) in cursor.fetchall()]


@contextmanager
def adding_tasks(environment: int) -> Iterator[None]:
    """Open a transaction that adds tasks to an environment, one transaction at a time.

    Two that add the same tasks in different orders would wait for each other.
    """
    with transaction.atomic():
        Environment.objects.select_for_update(no_key=True).only("pk").get(pk=environment)
        yield
