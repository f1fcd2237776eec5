"""Lines of lists of runs, and the environments in which one run played.

The latter include running episodes, so they are counted from the episodes; of a run with very many,
from some of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import attrgetter
from typing import ClassVar, NamedTuple

from django.db.models import Count, Max, OuterRef, Subquery

from environments.filtering.filters import query_string
from environments.filtering.parameters import definition_in
from environments.models import Environment, Split, Viewer
from environments.scoring.definition import (
    DEFINITION_PARAMETERS,
    NO_OVERRIDES,
    DefinitionOverrides,
    Definitions,
    definition_of,
    definitions_in_force,
)
from episodes.figures.environments.environment_figures import ScopeOutline, outline_of
from episodes.figures.run_splits import SplitChoice, in_split, labelled, splits_of
from episodes.figures.runs.stored_totals import LatestSteps, RunSums, latest_steps
from episodes.figures.scope_figures import ScopeFigures, judged
from episodes.figures.scopes import filtered, floor_of, scope_seen_by
from episodes.figures.summary_cover import MAX_LINE_RAW, SummaryCover, covers_of
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
    definition: Definitions
    """The definition of the episodes that count, or the definitions of their environments where
    these differ."""
    outline: ScopeOutline
    overrides: DefinitionOverrides
    """The parts of the definition that are given, which replace those of the environments."""
    cover: SummaryCover = field(repr=False)
    """What was read of all of its episodes."""
    latest: LatestSteps | None = None
    """What its latest training steps reached; None if it has none, and for a key."""

    @property
    def environment(self) -> Environment | None:
        """The environment of all episodes that count; None if there are several, or none."""
        if self.split is not None:
            return self.split.environment
        return self.environments[0] if len(self.environments) == 1 else None

    @property
    def place(self) -> str:
        """Where the episodes that count were played, such as `math train` or `3 environments`."""
        environments = [self.environment.name] if self.environment else self.environments
        splits = [self.split.name] if self.split else [split.name for split in self.splits]
        parts = ((environments, "environments"), (splits, "splits"))
        texts = [
            str(some[0]) if len(some) == 1 else f"{len(some)} {word}"
            for some, word in parts
            if some
        ]
        return " ".join(texts)

    @property
    def figures(self) -> ScopeFigures | RunSums | None:
        """What return and success are shown of: the latest training steps if it has some, otherwise
        all of its episodes."""
        return self.latest.totals if self.latest else self.outline.total

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
        return self.attempts_among(self.query)

    def attempts_among(self, query: str) -> str:
        """Return the query string that limits the list of `query` to rollouts that count."""
        return f"{query}&{query_string(ending='attempt', **self.overrides.list_parts)}"


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
    scopes = [scope_seen_by(run, viewer) for run in runs]
    covers = covers_of(scopes, definitions, least_blocks=MIN_BLOCKS, most_rows=MAX_LINE_RAW)
    places = list[set[int]]()
    for run, cover in zip(runs, covers, strict=True):
        places.append(cover.environments)
        if not places[-1] and run.pk in newest:
            places[-1].add(newest[run.pk].environment_id)
    rows = Environment.objects.defer("card", "task_schema").in_bulk(set().union(*places))
    splits_by_run, lines = splits_of([run.pk for run in runs], viewer), list[RunLine]()
    for run, cover, ids in zip(runs, covers, places, strict=True):
        environments = sorted([rows[pk] for pk in ids if pk in rows], key=attrgetter("name"))
        splits = splits_by_run.get(run.pk, [])
        split = choice.of(splits, environments[0].name if len(environments) == 1 else None)
        own = definitions.among(ids if split is None else {split.environment_id})
        lines.append(
            RunLine(
                run=run,
                environments=environments,
                splits=splits,
                split=split,
                definition=own,
                outline=outline_of(cover if split is None else cover.of_split(split.pk), own),
                overrides=overrides,
                cover=cover,
            )
        )
    if own_records(viewer):  # what is stored is of all keys
        return lines
    split_ids = {line.run.pk: {line.split.pk} if line.split else set[int]() for line in lines}
    latest = latest_steps(split_ids, definitions)
    return [replace(line, latest=latest.get(line.run.pk)) for line in lines]


@dataclass(frozen=True, slots=True)
class RunQuery:
    """One run with its figures, as parameters ask for it. The page of the run, those of its groups
    and the API share it."""

    run: Run
    viewer: Viewer
    splits: SplitChoice = FIRST_SPLIT
    """Which split the figures count if it played several."""
    definition: DefinitionOverrides = NO_OVERRIDES

    PARAMETERS: ClassVar = ("environment", *SplitChoice.PARAMETERS, *DEFINITION_PARAMETERS)

    @classmethod
    def parse(cls, parameters: Mapping[str, str], run: Run, viewer: Viewer) -> RunQuery:
        """Return the query in an address. Raises: BadFilter."""
        return cls(run, viewer, SplitChoice.parse(parameters), definition_in(parameters))

    def result(self) -> RunLine:
        """Return the run with its figures. Raises: BadFilter for a split that it did not play."""
        return lines_of([self.run], self.viewer, self.definition, self.splits)[0]


def _newest(runs: Sequence[Run], viewer: Viewer) -> dict[int, Episode]:
    """Return the newest episode of each run that has one, by the run's id. Two queries."""
    newest = Episode.objects.filter(own_records(viewer), run=OuterRef("pk")).order_by("-pk")
    ids = Run.objects.filter(pk__in=[run.pk for run in runs]).values_list(
        Subquery(newest.values("pk")[:1])
    )
    episodes = Episode.objects.only("environment_id", "run_id")
    return {
        episode.run_id: episode
        for episode in episodes.filter(pk__in=[pk for (pk,) in ids if pk])
        if episode.run_id is not None
    }


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
    environments = {environment.pk: environment for environment in line.environments}
    splits = {split.pk: split for split in line.splits}
    places = {place for block in line.cover.blocks for place in block.parts}
    places |= {Place(row[-1], row[-2] or 0) for row in line.cover.rows}
    order = [*splits, 0]
    parts = list[JudgedPart]()
    for place in sorted(
        [place for place in places if place.environment in environments and place.split in order],
        key=lambda place: (order.index(place.split), place.environment),
    ):
        environment, split = environments[place.environment], splits.get(place.split)
        definition = definition_of(environment, line.overrides)
        blocks = [
            (environment.pk, block.parts[place])
            for block in line.cover.blocks
            if place in block.parts
        ]
        rows = [row for row in line.cover.rows if (row[-1], row[-2] or 0) == place]
        total = ScopeFigures(judged(blocks, rows, definition))
        query = query_string(
            environment=environment.name, split=split.name if split else None, run=line.run.name
        )
        parts.append(
            JudgedPart(environment, split, definition, total, query, line.attempts_among(query))
        )
    return parts


def judged_parts(line: RunLine) -> list[JudgedPart]:
    """Return the parts of a run that has several, and all of them together if its figures count
    all."""
    parts, total = parts_of(line), line.outline.total
    if len(parts) < 2:
        return []
    if line.split is not None or total is None:
        return parts
    return [*parts, JudgedPart(None, None, line.definition, total, line.query, line.attempts_query)]


MAX_COUNTED = 5_000
"""Episodes that are counted at most: so many take about 5 ms."""


class InEnvironment(NamedTuple):
    """Episodes of a run in one environment."""

    name: str
    episodes: int
    """Number of episodes."""
    last: datetime
    """Start of the newest of these episodes."""


def places_of(run: Run) -> tuple[list[InEnvironment], bool]:
    """Return the environments of a run's newest MAX_COUNTED episodes, those with most of them
    first, and whether there are older episodes. Two queries."""
    episodes = Episode.objects.filter(run=run)
    floor = floor_of(filtered(episodes, "", episodes), MAX_COUNTED)
    rows = episodes.filter(pk__gt=floor).order_by().values_list("environment__name")
    counts = rows.annotate(count=Count("pk"), last=Max("created")).order_by("-count")
    return list(map(InEnvironment._make, counts)), floor > 0
