"""Lines of lists of runs, and the environments in which one run played.

The latter include running episodes, so they are counted from the episodes; of a run with very many, from some of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.db.models import Count, Max, OuterRef, Subquery

from environments.models import Environment
from environments.scoring.convention import CONVENTION_PARTS
from environments.scoring.definition import NOTHING_ASKED, Definition, DefinitionAsked, definition_of
from environments.scoring.returns import Return
from episodes.analytics.figures import ScopeFigures, figures_of, figures_together
from episodes.analytics.overview import ScopeOutline, covers_of, outline_of, summary_in
from episodes.analytics.scopes import Scope, filtered, floor_of, scope_of
from episodes.attempts.conventions import parts_in_address
from episodes.attempts.summary import Summary
from episodes.filtering.conditions import NamedRows
from episodes.filtering.filters import EpisodeFilter
from episodes.models import Episode, Run

MIN_BLOCKS = 10
"""Blocks that are read of each of many runs, about forty at most: twenty runs then cost as much as two curves."""


@dataclass(frozen=True, slots=True)
class RunLine:
    """One run as a line of a list."""

    run: Run
    environment: Environment | None
    """Environment of its newest episode, whose definition of return and success applies unless another is given."""
    last: datetime | None
    """Start of the newest episode of the run."""
    definition: Definition
    outline: ScopeOutline
    parts: Mapping[str, str]
    """Parts of the convention that the address of a list of its episodes needs."""

    @property
    def query(self) -> str:
        """Query string of the Episodes page that lists the run's episodes."""
        return EpisodeFilter(run=self.run.name).to_query()

    @property
    def attempts_query(self) -> str:
        """Query string of the Episodes page that lists the rollouts that the figures count."""
        return EpisodeFilter(run=self.run.name, ending="attempt").to_query(**self.parts)


def lines_of(runs: Sequence[Run], asked: DefinitionAsked = NOTHING_ASKED, key: str | None = None) -> list[RunLine]:
    """Return a line for each run, in the given order. The number of queries depends only on that of the definitions.

    `key`: label of a key, of whose episodes the newest MAX_ENDINGS of each run are counted; None: all episodes.
    """
    newest = _newest(runs, key)
    environments = _environments(newest.values())
    found = {pk: environments[episode.environment_id] for pk, episode in newest.items()}
    groups: dict[Definition, list[Run]] = defaultdict(list)
    for run in runs:
        groups[definition_of(found.get(run.pk), asked)].append(run)
    lines = dict[int, RunLine]()
    for definition, members in groups.items():
        parts = parts_in_address(definition.convention)
        for run, one in zip(
            members, covers_of([_scope_of(run, key) for run in members], definition, MIN_BLOCKS), strict=True
        ):
            last = newest[run.pk].created if run.pk in newest else None
            lines[run.pk] = RunLine(run, found.get(run.pk), last, definition, outline_of(one, definition), parts)
    return [lines[run.pk] for run in runs]


def environment_of(run: Run) -> Environment | None:
    """Return the environment of the run's newest episode; None if it has none. Three queries."""
    return environments_of([run]).get(run.pk)


def environments_of(runs: Sequence[Run]) -> dict[int, Environment]:
    """Return the environment of the newest episode of each run that has one, by the run's id. Three queries."""
    newest = _newest(runs)
    environments = _environments(newest.values())
    return {pk: environments[episode.environment_id] for pk, episode in newest.items()}


def environment_in_force(asked: EpisodeFilter, named: NamedRows) -> Environment | None:
    """Return the environment whose definition the figures of a filter follow; None for the default definition.

    It is the environment that the filter names, else that of the newest episode of its run. With a key only episodes
    that were played with it are considered. Four queries at most.
    """
    if named.environment is not None or named.run is None:
        return named.environment
    if asked.key is None:
        return environment_of(named.run)
    episodes = Episode.objects.filter(run=named.run)
    visible = episodes.filter(key_label=asked.key, pk__gt=floor_of(filtered(episodes, "", episodes)))
    newest = visible.only("environment_id", "created").order_by("-pk").first()
    return next(iter(_environments([newest]).values())) if newest else None


def _scope_of(run: Run, key: str | None) -> Scope:
    of_run = Episode.objects.filter(run=run)
    return scope_of(run) if key is None else filtered(of_run.filter(key_label=key), "", of_run)


def _newest(runs: Sequence[Run], key: str | None = None) -> dict[int, Episode]:
    """Return the newest episode of each run that has one, by the run's id. Two queries."""
    newest = Episode.objects.filter(run=OuterRef("pk"), **({} if key is None else {"key_label": key})).order_by("-pk")
    ids = [run.pk for run in runs]
    last = dict(Run.objects.filter(pk__in=ids).values_list("pk", Subquery(newest.values("pk")[:1])))
    episodes = Episode.objects.only("environment_id", "created").in_bulk([pk for pk in last.values() if pk])
    return {run: episodes[pk] for run, pk in last.items() if pk in episodes}


def _environments(episodes: Iterable[Episode]) -> dict[int, Environment]:
    ids = {episode.environment_id for episode in episodes}
    return Environment.objects.defer("card", "task_schema").in_bulk(ids)


@dataclass(frozen=True, slots=True)
class JudgedPart:
    """What a run reached in one of its environments, by the definition of that environment, or in all of them."""

    environment: Environment | None
    """None for all environments, where every rollout follows the definition of its own."""
    definition: Definition | None
    total: ScopeFigures | None
    """None if no episode has ended there."""
    query: str
    """Query string of the Episodes page that lists the episodes."""
    attempts_query: str
    """Query string of the Episodes page that lists the rollouts that the figures count."""


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """A run in several environments."""

    parts: Sequence[JudgedPart]
    """One for each environment, then one for all of them together."""
    is_bounded: bool
    """Whether only the newest MAX_ENDINGS episodes of the run are counted."""


def judged(run: Run, names: Sequence[str], asked: DefinitionAsked = NOTHING_ASKED) -> JudgedRun:
    """Return the figures of a run in each of the environments with these names by its own definition, and together."""
    rows = Environment.objects.defer("card", "task_schema").in_bulk(names, field_name="name")
    definitions = {name: definition_of(rows[name], asked) for name in names}
    summaries, is_bounded = _summaries_of(run, [(rows[name], definitions[name]) for name in names])
    parts = [
        JudgedPart(
            rows[name],
            definition,
            figures_of(summaries[rows[name].pk], definition) if rows[name].pk in summaries else None,
            EpisodeFilter(run=run.name, environment=name).to_query(),
            EpisodeFilter(run=run.name, environment=name, ending="attempt").to_query(
                **parts_in_address(definition.convention, rows[name])
            ),
        )
        for name, definition in definitions.items()
    ]
    counted = [(summaries[pk], definitions[name]) for name in names if (pk := rows[name].pk) in summaries]
    given = {name: text for name, text in asked.values().items() if name in CONVENTION_PARTS}
    together = JudgedPart(
        *(None, None, figures_together(counted) if counted else None, EpisodeFilter(run=run.name).to_query()),
        EpisodeFilter(run=run.name, ending="attempt").to_query(**given),
    )
    return JudgedRun([*parts, together], is_bounded)


def _summaries_of(run: Run, parts: Sequence[tuple[Environment, Definition]]) -> tuple[dict[int, Summary], bool]:
    """Return the summary of the run in each environment where an episode has ended, by its id, and whether older ones
    are missing.
    """
    groups: dict[Return, list[Environment]] = defaultdict(list)
    for environment, definition in parts:
        groups[definition.return_].append(environment)
    of_run, found, is_bounded = Episode.objects.filter(run=run), dict[int, Summary](), False
    for return_, members in groups.items():
        scopes = [filtered(of_run.filter(environment=environment), "", of_run) for environment in members]
        for environment, read in zip(members, covers_of(scopes, Definition(return_), MIN_BLOCKS), strict=True):
            is_bounded |= read.is_bounded
            if summary := summary_in(read, return_):
                found[environment.pk] = summary
    return found, is_bounded


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
    grouped = episodes.filter(pk__gt=floor).order_by().values_list("environment")
    counts = list(grouped.annotate(count=Count("pk"), last=Max("created")).order_by("-count"))
    names = dict(Environment.objects.filter(pk__in=[pk for pk, _, _ in counts]).values_list("pk", "name"))
    environments = [InEnvironment(names[pk], count, last) for pk, count, last in counts]
    return RunPlaces(environments, floor > 0)
