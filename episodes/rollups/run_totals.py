"""The part that makes RunTotal rows, by which lists of runs are sorted. Each batch is merged into
the rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from django.db import connection
from django.db.models import F, OuterRef, Subquery
from django.db.models.functions import Coalesce

from environments.database.bulk_writer import BulkWriter, Values
from environments.database.json_rows import among
from episodes.attempts.endings import Ending, Epoch, rows_of
from episodes.attempts.rule import ENDED
from episodes.models import Episode, RunTotal
from episodes.rollups.rollup_part import NO_LIMIT, delete_some
from episodes.rollups.scopes import Place, RollupScope, edges_of_environments, place_of
from episodes.rollups.summaries import (
    COLUMNS,
    columns_read,
    merged,
    read_summary,
    shrink,
    summary_of,
    values_of,
)

_KEY = ("scope", "scope_id", "environment_id", "split_id")


class TotalsChange(NamedTuple):
    stale: list[int]
    """Ids of rows that `fresh` replaces."""
    fresh: list[Values]
    """Rows in the order of _KEY and COLUMNS."""


class RunTotalsPart:
    name = "run_totals"
    most_endings = 1000
    most_steps = NO_LIMIT

    def gather(self, endings: Sequence[Ending]) -> TotalsChange:
        change, parts = TotalsChange([], []), _by_run_and_place(endings)
        contents = {key: [summary_of(some)] for key, some in parts.items()}
        totals = RunTotal.objects.filter(scope_id__in={run for run, _ in parts})
        for pk, run, environment, split, *row in rows_of(
            totals.values_list("pk", *_KEY[1:], *columns_read())
        ):
            if content := contents.get((run, Place(environment, split))):
                content.append(read_summary(row))
                change.stale.append(pk)
        edges, writer = edges_of_environments(), BulkWriter(connection)
        for (run, place), summaries in contents.items():
            summary = merged(summaries).compressed(edges.get(place.environment, ()))
            key = (*RollupScope("run", run), *place)
            change.fresh.append((*key, *values_of(summary, writer)))
        return change

    def write(self, change: TotalsChange) -> None:
        RunTotal.objects.filter(pk__in=change.stale).delete()
        BulkWriter(connection).insert(RunTotal, (*_KEY, *COLUMNS), change.fresh)

    def forget(self) -> None:
        pass

    def remove(self, endings: Sequence[Ending]) -> None:
        parts = _by_run_and_place(endings)
        totals = RunTotal.objects.filter(scope_id__in={run for run, _ in parts})
        rows, without_last = dict[int, list[Ending]](), list[int]()
        columns = totals.values_list("pk", *_KEY[1:], Epoch("ended"))
        for pk, run, environment, split, end in rows_of(columns):
            if content := parts.get((run, Place(environment, split))):
                rows[pk] = content
                if max(ending.ended for ending in content) >= end:
                    without_last.append(pk)
        shrink(RunTotal, rows)
        RunTotal.objects.filter(pk__in=rows, episodes=0).delete()
        rest = Episode.objects.filter(
            ENDED,
            ~among("pk", [ending.episode for ending in endings]),
            run=OuterRef("scope_id"),
            environment=OuterRef("environment_id"),
            end_number__lte=OuterRef("last_end"),
        ).alias(place=Coalesce("split", 0))
        newest = rest.filter(place=OuterRef("split_id")).order_by("-end_number")
        totals = RunTotal.objects.filter(pk__in=without_last)
        totals.update(ended=Coalesce(Subquery(newest.values("ended")[:1]), F("ended")))

    def empty(self) -> bool:
        return delete_some(RunTotal)


def _by_run_and_place(endings: Sequence[Ending]) -> Mapping[tuple[int, Place], list[Ending]]:
    parts = defaultdict[tuple[int, Place], list[Ending]](list)
    for ending in endings:
        if ending.run is not None:
            parts[ending.run, place_of("run", ending)].append(ending)
    return parts
