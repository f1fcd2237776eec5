"""Asked: the scopes that a filter asks for, one or one for each run or model in it. For curves of pages and the API.

Scope: whose endings are asked for: those of an environment, a split, a task, a run, or of any filter.

Of environments, runs and splits that a class declares blocks exist, so all of their endings count. Of the others the
newest MAX_ENDINGS episodes are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, cast

from django.db.models import Max, QuerySet

from environments.models import Environment, Split, Task
from environments.tasks.split_positions import served
from episodes.filtering.conditions import episodes_of
from episodes.filtering.filters import EpisodeFilter
from episodes.filtering.names import NamedRows
from episodes.filtering.people import people
from episodes.models import Episode, Run

MAX_ENDINGS = 50_000
"""That are read one by one."""


@dataclass(frozen=True, slots=True)
class Scope:
    kind: Literal["environment", "split", "run", "task", "filter"]
    id: int
    """Of what `kind` names; 0 of a filter."""
    label: str
    """For legends and titles."""
    episodes: QuerySet[Episode] = field(compare=False, repr=False)
    within: QuerySet[Episode] | None = field(default=None, compare=False, repr=False)
    """Without blocks: its newest MAX_ENDINGS are looked at; None: of all episodes."""
    note: str = ""
    """What a page says of how this scope is read."""

    @property
    def has_blocks(self) -> bool:
        return self.kind in ("environment", "split", "run")


def scope_of(of: Environment | Split | Task | Run) -> Scope:
    """A split that people made follows its present tasks, for clients do not name it."""
    if isinstance(of, Split) and of.is_curated:
        return _curated(of)
    if isinstance(of, Environment):
        return Scope("environment", of.pk, of.name, Episode.objects.filter(environment=of))
    if isinstance(of, Split):
        return Scope("split", of.pk, of.name, Episode.objects.filter(split=of))
    if isinstance(of, Run):
        return Scope("run", of.pk, of.name, Episode.objects.filter(run=of))
    episodes = Episode.objects.filter(task=of)
    return Scope("task", of.pk, str(of), episodes, episodes)


def filtered(episodes: QuerySet[Episode], label: str, within: QuerySet[Episode] | None = None) -> Scope:
    """Of any condition, among the newest MAX_ENDINGS of `within` (None: of all), which an index gives by id."""
    return Scope("filter", 0, label, episodes, within)


def floor_of(scope: Scope, most: int | None = None) -> int:
    """The id beyond which `most` episodes (None: MAX_ENDINGS) of a scope without blocks are; 0: all. One query."""
    most = MAX_ENDINGS if most is None else most
    if scope.within is None:
        newest: int = Episode.objects.aggregate(last=Max("pk"))["last"] or 0
        return max(0, newest - most)
    ids = scope.within.order_by("-pk").values_list("pk", flat=True)
    return next(iter(ids[most : most + 1]), 0)


def _curated(split: Split) -> Scope:
    environment = Episode.objects.filter(environment=split.environment_id)
    episodes = environment.filter(task__in=served(split).values("task"))
    note = "Counts every attempt at the tasks that stand in the split now, whichever split the client named."
    return Scope("filter", 0, split.name, episodes, environment, note)


Overlay = Literal["run", "model"]
OVERLAYS: tuple[Overlay, ...] = ("run", "model")
MAX_SERIES = 8
"""Drawn over each other; with more of them nobody tells one from another."""


def asked_scope(asked: EpisodeFilter, named: NamedRows, label: str = "all episodes") -> Scope:
    """An environment, a split, a run or a task alone counts every episode; any other filter among the newest."""
    if named.unknown:
        return filtered(Episode.objects.none(), label)
    # what a key may read is part of its environments and runs, so it has no blocks
    given = set(asked.values()) - {"return"} if asked.key is None else set()
    if given == {"run"} and named.run:
        return scope_of(named.run)
    if given == {"environment", "split"} and named.split:
        return scope_of(named.split)
    if given == {"environment"} and named.environment:
        return scope_of(named.environment)
    return filtered(episodes_of(asked), label, _within(asked, named))


def overlaid(asked: EpisodeFilter, by: Overlay) -> list[tuple[EpisodeFilter, str]]:
    """A filter and its label for each of the runs or models that were last seen in what `asked` finds, oldest first."""
    episodes = episodes_of(asked)
    recent = episodes.filter(pk__gt=floor_of(filtered(episodes, "", episodes)))
    column = "run__name" if by == "run" else "model"
    last = recent.order_by().values_list(column).annotate(last=Max("pk")).order_by("-last")
    names = [cast(str, name) for name, _ in last[: MAX_SERIES + 1] if name][:MAX_SERIES]
    return [(replace(asked, run=name) if by == "run" else replace(asked, model=name), name) for name in reversed(names)]


def of_runs(asked: EpisodeFilter, runs: Sequence[int]) -> list[tuple[EpisodeFilter, str]]:
    """A filter and its label for each run by id, in the order given; those that are not there are left out."""
    found = Run.objects.in_bulk(list(runs))
    return [(replace(asked, run=found[pk].name), found[pk].name) for pk in runs if pk in found]


def _within(asked: EpisodeFilter, named: NamedRows) -> QuerySet[Episode] | None:
    """What an index gives by id, of which `asked` finds a part."""
    if asked.task is not None:
        return Episode.objects.filter(task=asked.task)
    if named.run is not None:
        return Episode.objects.filter(run=named.run)
    if asked.who is not None or asked.player == "human":
        return people()
    if asked.model is not None:
        return Episode.objects.filter(model=asked.model).exclude(model="")
    if named.environment is not None:
        return Episode.objects.filter(environment=named.environment)
    return None
