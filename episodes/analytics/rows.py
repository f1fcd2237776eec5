"""Rows: single endings of scopes, read with no more columns than a curve needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, cast

from django.db.models import BigIntegerField, F, QuerySet, Value

from episodes.analytics.definition import Definition
from episodes.analytics.tally import Row
from episodes.endings import KIND, Epoch, rows_of
from episodes.models import Episode

Axis = Literal["episode", "time", "step"]

_PLACES: dict[str, Any] = {"episode": F("pk"), "time": Epoch("ended"), "step": F("run_step")}


def read_rows(
    parts: Sequence[QuerySet[Episode]], definition: Definition, axis: Axis = "episode", most: int | None = None
) -> list[list[Row]]:
    """Of those that have ended of each part, in order of `end_number`; one query for all of them.

    `most`: of the first ones, for a single part.
    """
    if not parts:
        return []
    columns = ("end_number", KIND, "steps_count", definition.column, _PLACES[axis])
    found: list[list[Row]] = [[] for _ in parts]
    if len(parts) == 1:
        found[0] = cast(
            list[Row], rows_of(parts[0].filter(status="ended").order_by("end_number").values_list(*columns)[:most])
        )
        return found
    marked = [
        part.filter(status="ended").order_by().values_list(*columns, Value(place, BigIntegerField()))
        for place, part in enumerate(parts)
    ]
    for *row, place in rows_of(marked[0].union(*marked[1:], all=True)):
        found[place].append(cast(Row, tuple(row)))
    for rows in found:
        rows.sort(key=lambda row: row[0])
    return found
