"""Runs: what each of some runs reached, and what one of them did where. For pages; no request, no HTML."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import OuterRef, Subquery

from environments.models import Environment
from environments.returns import Return
from episodes.analytics.definition import Definition, definition_of
from episodes.analytics.outline import Outline, covers_of, outline_of
from episodes.analytics.scope import scope_of
from episodes.models import Episode, Run

LEAST_BLOCKS = 10
"""Of each of many runs, so that some forty are read at most: twenty runs then cost what two curves do."""


@dataclass(frozen=True, slots=True)
class RunLine:
    """One run as a line of a list."""

    run: Run
    environment: Environment | None
    """Of its newest episode; its definition of return and success is the one in force unless another is asked for."""
    last: datetime | None
    """When its newest episode began."""
    definition: Definition
    outline: Outline


def lines_of(runs: Sequence[Run], return_: Return | None = None, threshold: float | None = None) -> list[RunLine]:
    """In the order given. The number of queries goes with that of the definitions, not with that of the runs."""
    newest = _newest(runs)
    environments = _environments(newest.values())
    found = {pk: environments[episode.environment_id] for pk, episode in newest.items()}
    groups: dict[Definition, list[Run]] = defaultdict(list)
    for run in runs:
        groups[definition_of(found.get(run.pk), return_, threshold)].append(run)
    lines = dict[int, RunLine]()
    for definition, members in groups.items():
        for run, one in zip(
            members, covers_of([scope_of(run) for run in members], definition, LEAST_BLOCKS), strict=True
        ):
            last = newest[run.pk].created if run.pk in newest else None
            lines[run.pk] = RunLine(run, found.get(run.pk), last, definition, outline_of(one, definition))
    return [lines[run.pk] for run in runs]


def environment_of(run: Run) -> Environment | None:
    """Of its newest episode. Three queries."""
    return next(iter(_environments(_newest([run]).values()).values()), None)


def _newest(runs: Sequence[Run]) -> dict[int, Episode]:
    """The newest episode of each run that has one, by the run's id. Two queries."""
    newest = Episode.objects.filter(run=OuterRef("pk")).order_by("-pk")
    ids = [run.pk for run in runs]
    last = dict(Run.objects.filter(pk__in=ids).values_list("pk", Subquery(newest.values("pk")[:1])))
    episodes = Episode.objects.only("environment_id", "created").in_bulk([pk for pk in last.values() if pk])
    return {run: episodes[pk] for run, pk in last.items() if pk in episodes}


def _environments(episodes: Iterable[Episode]) -> dict[int, Environment]:
    ids = {episode.environment_id for episode in episodes}
    return Environment.objects.defer("card", "task_schema").in_bulk(ids)
