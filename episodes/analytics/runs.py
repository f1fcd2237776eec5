"""Lines of lists of runs, and the environments in which one run played.

The latter include running episodes, so they are counted from the episodes; of a run with very many,
from some of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from django.db.models import Count, Max, OuterRef, Subquery

from environments.filtering.filters import query_string
from environments.models import Environment, Split, Viewer
from environments.scoring.definition import (
    NO_OVERRIDES,
    DefinitionOverrides,
    Definitions,
    definition_of,
    definitions_in_force,
)
from episodes.analytics.figures import ScopeFigures, judged
from episodes.analytics.overview import ScopeOutline, outline_of
from episodes.analytics.run_splits import SplitChoice, in_split, labelled, splits_of
from episodes.analytics.scopes import Scope, filtered, floor_of, scope_of
from episodes.analytics.summary_cover import MIN_RAW, SummaryCover, covers_of
from episodes.models import Episode, Run
from episodes.models.privacy import own_records
from episodes.rollups.scopes import Place

FIRST_SPLIT = SplitChoice()
MIN_BLOCKS = 10
"""Blocks that are read of each of many runs, about forty at most: twenty runs then cost as much as
two curves."""


@dataclass(frozen=True, slots=True)
class RunLine:
    """One run as a line of a list. Each of its rollouts counts by the definition of its own
    environment."""

    run: Run
    environments: Sequence[Environment]
    """Environments of its ended episodes by name; before the first ending that of its newest
    episode."""
    splits: Sequence[Split]
    """Splits that it played, in the order in which it began to."""
    split: Split | None
    """The split whose episodes the figures count; None: all."""
    last: datetime | None
    """Start of the newest episode of the run."""
    definition: Definitions
    """The definition of the episodes that count, or the definitions of their environments where
    these differ."""
    outline: ScopeOutline
    overrides: DefinitionOverrides
    """The parts of the definition that are given, which replace those of the environments."""
    read: SummaryCover = field(repr=False)
    """What was read of all of its episodes."""

    @property
    def environment(self) -> Environment | None:
        """The environment of all episodes that count; None if there are several, or none."""
        if self.split is not None:
            return self.split.environment
        return self.environments[0] if len(self.environments) == 1 else None

    @property
    def has_mixed_conventions(self) -> bool:
        return self.definition.convention is None

    @property
    def named_splits(self) -> list[tuple[Split, str]]:
        """Each split with its name, after that of its environment where it played in several."""
        return labelled(self.splits, has_several=len(self.environments) > 1)

    @property
    def query(self) -> str:
        """Query string of the Episodes page that lists the run's episodes."""
        return query_string(**in_split(self.split), run=self.run.name)

    @property
    def attempts_query(self) -> str:
        """Query string of the Episodes page that lists the rollouts that the figures count."""
        return f"{self.query}&{query_string(ending='attempt', **self.overrides.convention_parts)}"


def lines_of(
    runs: Sequence[Run],
    viewer: Viewer,
    overrides: DefinitionOverrides = NO_OVERRIDES,
    choice: SplitChoice = FIRST_SPLIT,
) -> list[RunLine]:
    """Return a line for each run, in the given order. The number of queries does not depend on that
    of the runs.

    For a key, the newest MAX_ENDINGS of its own episodes of each run are counted. `choice`: which
    splits the figures count of a run that played several. Raises: BadFilter for another one.
    """
    newest, definitions = _newest(runs, viewer), definitions_in_force(overrides)
    covers = covers_of(
        [_scope_of(run, viewer) for run in runs],
        definitions,
        least_blocks=MIN_BLOCKS,
        most_rows=MIN_RAW,
    )
    places = [
        one.environments or _place_of(newest.get(run.pk))
        for run, one in zip(runs, covers, strict=True)
    ]
    rows = Environment.objects.defer("card", "task_schema").in_bulk(
        {pk for some in places for pk in some}
    )
    splits_by_run, lines = splits_of([run.pk for run in runs], viewer), list[RunLine]()
    for run, read, some in zip(runs, covers, places, strict=True):
        splits = splits_by_run.get(run.pk, [])
        names = sorted(rows[pk].name for pk in some if pk in rows)
        split = choice.of(splits, names[0] if len(names) == 1 else None)
        own = definitions.among(some if split is None else {split.environment_id})
        lines.append(
            RunLine(
                run,
                sorted([rows[pk] for pk in some if pk in rows], key=lambda row: row.name),
                splits,
                split,
                newest[run.pk].created if run.pk in newest else None,
                own,
                outline_of(read if split is None else read.of_split(split.pk), own),
                overrides,
                read,
            )
        )
    return lines


def _place_of(episode: Episode | None) -> set[int]:
    return {episode.environment_id} if episode else set()


def _scope_of(run: Run, viewer: Viewer) -> Scope:
    own, of_run = own_records(viewer), Episode.objects.filter(run=run)
    return filtered(of_run.filter(own), "", of_run) if own else scope_of(run)


def _newest(runs: Sequence[Run], viewer: Viewer) -> dict[int, Episode]:
    """Return the newest episode of each run that has one, by the run's id. Two queries."""
    newest = Episode.objects.filter(own_records(viewer), run=OuterRef("pk")).order_by("-pk")
    ids = [run.pk for run in runs]
    last = dict(Run.objects.filter(pk__in=ids).values_list("pk", Subquery(newest.values("pk")[:1])))
    episodes = Episode.objects.only("environment_id", "created").in_bulk(
        [pk for pk in last.values() if pk]
    )
    return {run: episodes[pk] for run, pk in last.items() if pk in episodes}


@dataclass(frozen=True, slots=True)
class JudgedPart:
    """What a run reached in one of its splits, or environments, or in all of them."""

    environment: Environment | None
    """None for all environments."""
    split: Split | None
    """None for all splits, or for the episodes at tasks of none."""
    definition: Definitions
    total: ScopeFigures
    query: str
    """Query string of the Episodes page that lists the episodes."""
    attempts_query: str
    """Query string of the Episodes page that lists the rollouts that the figures count."""


def parts_of(line: RunLine) -> list[JudgedPart]:
    """Return the figures of a run in each of its splits, in order, and in its environments at tasks
    of no split."""
    environments = {one.pk: one for one in line.environments}
    splits = {split.pk: split for split in line.splits}
    places = {place for block in line.read.blocks for place in block.parts}
    places |= {Place(row[-1], row[-2] or 0) for row in line.read.rows}
    order = [0, *splits]
    return [
        _judged_part(line, environments[place.environment], splits.get(place.split))
        for place in sorted(
            places, key=lambda one: (order.index(one.split) or len(order), one.environment)
        )
        if place.environment in environments and place.split in order
    ]


def judged_parts(line: RunLine) -> list[JudgedPart]:
    """Return the parts of a run that has several, and all of them together if its figures count
    all."""
    parts = parts_of(line)
    if len(parts) < 2:
        return []
    total = line.outline.total
    if line.split is not None or total is None:
        return parts
    return [*parts, JudgedPart(None, None, line.definition, total, line.query, line.attempts_query)]


def _judged_part(line: RunLine, environment: Environment, split: Split | None) -> JudgedPart:
    definition, place = (
        definition_of(environment, line.overrides),
        Place(environment.pk, split.pk if split else 0),
    )
    blocks = [(environment.pk, one.parts[place]) for one in line.read.blocks if place in one.parts]
    rows = [row for row in line.read.rows if (row[-1], row[-2] or 0) == place]
    query = query_string(
        environment=environment.name, split=split.name if split else None, run=line.run.name
    )
    return JudgedPart(
        environment,
        split,
        definition,
        ScopeFigures(judged(blocks, rows, definition)),
        query,
        f"{query}&{query_string(ending='attempt', **line.overrides.convention_parts)}",
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


def places_of(run: Run) -> RunPlaces:
    """Return the environments of a run's newest MAX_COUNTED episodes. Three queries."""
    episodes = Episode.objects.filter(run=run)
    floor = floor_of(filtered(episodes, "", episodes), MAX_COUNTED)
    by_environment = episodes.filter(pk__gt=floor).order_by().values_list("environment")
    counts = list(
        by_environment.annotate(count=Count("pk"), last=Max("created")).order_by("-count")
    )
    names = dict(
        Environment.objects.filter(pk__in=[pk for pk, _, _ in counts]).values_list("pk", "name")
    )
    environments = [InEnvironment(names[pk], count, last) for pk, count, last in counts]
    return RunPlaces(environments, floor > 0)
