"""Scope: whose endings are asked for: those of an environment, a split, a task, a run, or of any filter.

Of environments, runs and splits that a class declares blocks exist, so all of their endings count. Of the others the
newest MOST_ENDINGS episodes are looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from django.db.models import Max, QuerySet

from environments.curation.indexes import served
from environments.models import Environment, Split, Task
from episodes.models import Episode, Run

MOST_ENDINGS = 50_000
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
    """Without blocks: its newest MOST_ENDINGS are looked at; None: of all episodes."""
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
    """Of any condition, among the newest MOST_ENDINGS of `within` (None: of all), which an index gives by id."""
    return Scope("filter", 0, label, episodes, within)


def floor_of(scope: Scope, most: int | None = None) -> int:
    """The id beyond which `most` episodes (None: MOST_ENDINGS) of a scope without blocks are; 0: all. One query."""
    most = MOST_ENDINGS if most is None else most
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
