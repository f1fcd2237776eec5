"""Asked: the scopes that a filter asks for, one or one for each run or model in it. For curves of pages and the API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, cast

from django.db.models import Max, QuerySet

from episodes.analytics.scope import Scope, filtered, floor_of, scope_of
from episodes.filters import EpisodeFilter
from episodes.models import Episode, Run
from episodes.named import Named
from episodes.people import people

Overlay = Literal["run", "model"]
OVERLAYS: tuple[Overlay, ...] = ("run", "model")
MOST_SERIES = 8
"""Drawn over each other; with more of them nobody tells one from another."""


def asked_scope(asked: EpisodeFilter, named: Named, label: str = "all episodes") -> Scope:
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
    return filtered(asked.episodes(), label, _within(asked, named))


def overlaid(asked: EpisodeFilter, by: Overlay) -> list[tuple[EpisodeFilter, str]]:
    """A filter and its label for each of the runs or models that were last seen in what `asked` finds, oldest first."""
    episodes = asked.episodes()
    recent = episodes.filter(pk__gt=floor_of(filtered(episodes, "", episodes)))
    column = "run__name" if by == "run" else "model"
    last = recent.order_by().values_list(column).annotate(last=Max("pk")).order_by("-last")
    names = [cast(str, name) for name, _ in last[: MOST_SERIES + 1] if name][:MOST_SERIES]
    return [(replace(asked, run=name) if by == "run" else replace(asked, model=name), name) for name in reversed(names)]


def of_runs(asked: EpisodeFilter, runs: Sequence[int]) -> list[tuple[EpisodeFilter, str]]:
    """A filter and its label for each of the runs by id, in the order given; those that are not there are left out."""
    found = Run.objects.in_bulk(list(runs))
    return [(replace(asked, run=found[pk].name), found[pk].name) for pk in runs if pk in found]


def _within(asked: EpisodeFilter, named: Named) -> QuerySet[Episode] | None:
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
