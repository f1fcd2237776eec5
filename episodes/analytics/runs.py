"""Lines of lists of runs, and the environments in which one run played.

The latter include running episodes, so they are counted from the episodes; of a run with very many, from some of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from django.db.models import Count, Max, Min, OuterRef, Subquery

from environments.models import Environment, Split
from environments.scoring.definition import NOTHING_ASKED, DefinitionAsked, Definitions, definitions_in_force
from episodes.analytics.figures import ScopeFigures, judged
from episodes.analytics.overview import ScopeOutline, covers_of, outline_of
from episodes.analytics.scopes import Scope, filtered, floor_of, scope_of
from episodes.analytics.summary_cover import SummaryCover
from episodes.filtering.filters import EpisodeFilter
from episodes.models import Episode, Run
from episodes.models.record import played_with

MIN_BLOCKS = 10
"""Blocks that are read of each of many runs, about forty at most: twenty runs then cost as much as two curves."""


@dataclass(frozen=True, slots=True)
class RunLine:
    """One run as a line of a list. Each of its rollouts counts by the definition of its own environment."""

    run: Run
    environments: Sequence[Environment]
    """Environments of its ended episodes by name; before the first ending that of its newest episode."""
    last: datetime | None
    """Start of the newest episode of the run."""
    definition: Definitions
    """The definition of its episodes, or the definitions of their environments where these differ."""
    outline: ScopeOutline
    asked: DefinitionAsked
    """The parts of the definition that are given, which replace those of the environments."""
    read: SummaryCover = field(repr=False)
    """What was read of its episodes."""
    split: Split | None = None
    """The split whose episodes count; None: all."""

    @property
    def environment(self) -> Environment | None:
        """The environment of all its episodes; None if there are several, or none."""
        return self.environments[0] if len(self.environments) == 1 else None

    @property
    def has_mixed_conventions(self) -> bool:
        return self.definition.convention is None

    @property
    def query(self) -> str:
        """Query string of the Episodes page that lists the run's episodes."""
        return self.filter.to_query()

    @property
    def attempts_query(self) -> str:
        """Query string of the Episodes page that lists the rollouts that the figures count."""
        return replace(self.filter, ending="attempt").to_query(**self.asked.convention_parts)

    @property
    def filter(self) -> EpisodeFilter:
        found = EpisodeFilter(run=self.run.name)
        return replace(found, environment=self.split.environment.name, split=self.split.name) if self.split else found


def lines_of(
    runs: Sequence[Run],
    asked: DefinitionAsked = NOTHING_ASKED,
    key: str | None = None,
    split: Split | None = None,
) -> list[RunLine]:
    """Return a line for each run, in the given order. The number of queries does not depend on that of the runs.

    `key`: label of a key, of whose episodes the newest MAX_ENDINGS of each run are counted; None: all episodes.
    `split`: of which alone those count, likewise.
    """
    newest, definitions = _newest(runs, key), definitions_in_force(asked)
    covers = covers_of([_scope_of(run, key, split) for run in runs], definitions, MIN_BLOCKS)
    places = [one.environments or _place_of(newest.get(run.pk)) for run, one in zip(runs, covers, strict=True)]
    rows = Environment.objects.defer("card", "task_schema").in_bulk({pk for some in places for pk in some})
    return [
        RunLine(
            run,
            sorted([rows[pk] for pk in some if pk in rows], key=lambda row: row.name),
            newest[run.pk].created if run.pk in newest else None,
            (own := definitions.among(some)),
            outline_of(read, own),
            asked,
            read,
            split,
        )
        for run, read, some in zip(runs, covers, places, strict=True)
    ]


def _place_of(episode: Episode | None) -> set[int]:
    return {episode.environment_id} if episode else set()


def _scope_of(run: Run, key: str | None, split: Split | None) -> Scope:
    of_run = Episode.objects.filter(run=run)
    if split is not None:
        return filtered(of_run.filter(split=split), "", of_run)
    return scope_of(run) if key is None else filtered(of_run.filter(played_with(key)), "", of_run)


def _newest(runs: Sequence[Run], key: str | None = None) -> dict[int, Episode]:
    """Return the newest episode of each run that has one, by the run's id. Two queries."""
    newest = Episode.objects.filter(run=OuterRef("pk"), **({} if key is None else {"key_label": key})).order_by("-pk")
    ids = [run.pk for run in runs]
    last = dict(Run.objects.filter(pk__in=ids).values_list("pk", Subquery(newest.values("pk")[:1])))
    episodes = Episode.objects.only("environment_id", "created").in_bulk([pk for pk in last.values() if pk])
    return {run: episodes[pk] for run, pk in last.items() if pk in episodes}


@dataclass(frozen=True, slots=True)
class JudgedPart:
    """What a run reached in one of its environments, or in all of them."""

    environment: Environment | None
    """None for all environments."""
    definition: Definitions
    total: ScopeFigures
    query: str
    """Query string of the Episodes page that lists the episodes."""
    attempts_query: str
    """Query string of the Episodes page that lists the rollouts that the figures count."""


def judged_parts(line: RunLine) -> list[JudgedPart]:
    """Return the figures of a run in each of its environments, then in all of them; nothing if it has only one."""
    if line.outline.total is None or line.environment is not None:
        return []
    parts = [_judged_part(line, environment) for environment in line.environments]
    return [*parts, JudgedPart(None, line.definition, line.outline.total, line.query, line.attempts_query)]


def _judged_part(line: RunLine, environment: Environment) -> JudgedPart:
    definition = line.definition.of(environment.pk)
    blocks = [(environment.pk, one.parts[environment.pk]) for one in line.read.blocks if environment.pk in one.parts]
    rows = [row for row in line.read.rows if row[-1] == environment.pk]
    of_part = EpisodeFilter(run=line.run.name, environment=environment.name)
    return JudgedPart(
        environment,
        definition,
        ScopeFigures(judged(blocks, rows, definition)),
        of_part.to_query(),
        replace(of_part, ending="attempt").to_query(**line.asked.convention_parts),
    )


MAX_COUNTED = 5_000
"""Episodes that are counted at most: so many take about 5 ms."""


class InEnvironment(NamedTuple):
    """Episodes of a run in one environment."""

    name: str
    episodes: int
    """Number of episodes."""
    last: datetime
    """Start of the newest of these episodes."""


@dataclass(frozen=True, slots=True)
class RunPlaces:
    environments: Sequence[InEnvironment]
    """Environments with most episodes first."""
    is_bounded: bool
    """Whether only the newest MAX_COUNTED episodes were counted for the environments."""


def splits_of(run: Run) -> list[Split]:
    """Return the splits of a run in the order in which it began to play them.

    Those of its first and its newest MAX_COUNTED episodes. Four queries at most.
    """
    episodes = Episode.objects.filter(run=run)
    floor = floor_of(filtered(episodes, "", episodes), MAX_COUNTED)
    parts = [episodes.filter(pk__gt=floor)]
    if floor:
        last = episodes.order_by("pk").values_list("pk", flat=True)[MAX_COUNTED - 1]
        parts.insert(0, episodes.filter(pk__lte=last))
    began: dict[int, int] = {}
    for part in parts:
        grouped = part.filter(split__isnull=False).order_by().values_list("split").annotate(first=Min("pk"))
        for split, first in sorted(grouped, key=lambda row: row[1]):
            began.setdefault(split, first)
    known = Split.objects.select_related("environment").in_bulk(began)
    return [known[pk] for pk in began if pk in known]


def places_of(run: Run) -> RunPlaces:
    """Return the environments of a run's newest MAX_COUNTED episodes. Three queries."""
    episodes = Episode.objects.filter(run=run)
    floor = floor_of(filtered(episodes, "", episodes), MAX_COUNTED)
    grouped = episodes.filter(pk__gt=floor).order_by().values_list("environment")
    counts = list(grouped.annotate(count=Count("pk"), last=Max("created")).order_by("-count"))
    names = dict(Environment.objects.filter(pk__in=[pk for pk, _, _ in counts]).values_list("pk", "name"))
    environments = [InEnvironment(names[pk], count, last) for pk, count, last in counts]
    return RunPlaces(environments, floor > 0)
