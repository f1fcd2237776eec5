"""Runs: what each of some runs reached, and what one of them did where. For pages; no request, no HTML."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import OuterRef, Subquery

from environments.models import Environment
from episodes.analytics.curve import Curve, curves
from episodes.analytics.definition import Definition, Return, definition_of
from episodes.analytics.scope import scope_of
from episodes.models import Episode, Run

TRACE_POINTS = 40


@dataclass(frozen=True, slots=True)
class RunLine:
    """One run as a line of a list."""

    run: Run
    environment: Environment | None
    """Of its newest episode; its definition of return and success is the one in force unless another is asked for."""
    last: datetime | None
    """When its newest episode began."""
    definition: Definition
    curve: Curve

    @property
    def trace(self) -> list[float | None]:
        """Mean returns over its episodes, for a sparkline."""
        return [point.mean for point in self.curve.points]


def lines_of(runs: Sequence[Run], return_: Return | None = None, threshold: float | None = None) -> list[RunLine]:
    """In the order given. The number of queries goes with that of the definitions, not with that of the runs."""
    newest = Episode.objects.filter(run=OuterRef("pk")).order_by("-pk")
    ids = [run.pk for run in runs]
    last = dict(Run.objects.filter(pk__in=ids).values_list("pk", Subquery(newest.values("pk")[:1])))
    episodes = Episode.objects.filter(pk__in=[pk for pk in last.values() if pk]).only(
        "run_id", "environment_id", "created"
    )
    found = {episode.run_id: episode for episode in episodes}
    environments = Environment.objects.defer("card", "task_schema").in_bulk({e.environment_id for e in found.values()})
    groups: dict[Definition, list[Run]] = defaultdict(list)
    for run in runs:
        groups[definition_of(_environment(run, found, environments), return_, threshold)].append(run)
    drawn = dict[int, tuple[Definition, Curve]]()
    for definition, members in groups.items():
        each = curves([scope_of(run) for run in members], definition, points=TRACE_POINTS)
        drawn |= {run.pk: (definition, one) for run, one in zip(members, each, strict=True)}
    return [
        RunLine(run, _environment(run, found, environments), _begun(found.get(run.pk)), *drawn[run.pk]) for run in runs
    ]


def _environment(
    run: Run, found: dict[int | None, Episode], environments: dict[int, Environment]
) -> Environment | None:
    episode = found.get(run.pk)
    return environments.get(episode.environment_id) if episode else None


def _begun(episode: Episode | None) -> datetime | None:
    return episode.created if episode else None
