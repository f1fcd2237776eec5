"""Figures of people, agents and scripted players at a task and in an environment, for their pages.

People play few episodes: an index of the players that are not agents finds all of them. Of all
other players at a task the newest MAX_NEWEST episodes are read; in an environment their figures
come from rollups, which leave out people.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal, cast

from django.db.models import F, QuerySet
from django.db.models.lookups import Exact

from environments.models import Environment, Split, Task, Viewer
from environments.scoring.attempt_figures import Figures
from environments.scoring.definition import Definition
from environments.tasks.split_indexes import served
from episodes.attempts.endings import rows_of
from episodes.attempts.rule import KIND
from episodes.attempts.sketches import error_of
from episodes.attempts.summary import EndedReturn, figures_from, returns_counted, returns_sketch
from episodes.figures.scope_figures import ScopeFigures
from episodes.filtering.conditions import Unindexed
from episodes.models import Episode

MAX_NEWEST = 10_000
Player = Literal["human", "agent", "script", "others"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayerFigures(Figures):
    """Figures of the attempts of one kind of player. Those of people may have no attempts."""

    player: Player
    """Kind of player; "others" are agents and scripted players together."""
    error: float | None
    """Standard error of the mean; None below two returns."""
    is_bounded: bool = False
    """Whether older attempts are missing."""


def people_in(
    environment: Environment, viewer: Viewer, split: Split | None = None
) -> QuerySet[Episode]:
    """Return what people played there, without the studies that do not exist for the viewer."""
    episodes = Episode.objects.by_people().in_figures_for(viewer)
    episodes = episodes.filter(Exact(Unindexed(F("environment_id")), environment.pk))
    if split is None:
        return episodes
    if split.is_curated:  # clients do not name it
        return episodes.filter(task__in=served(split).values("task"))
    return episodes.filter(Exact(Unindexed(F("split_id")), split.pk))


def at_task(task: Task, definition: Definition, viewer: Viewer) -> list[PlayerFigures]:
    """Return the figures of people, then those of the other kinds of players that attempted the
    task. Two queries."""
    by_people = Episode.objects.by_people().in_figures_for(viewer)
    human = _human(by_people.filter(Exact(Unindexed(F("task_id")), task.pk)), definition)
    newest = Episode.objects.filter(task=task).order_by("-pk")
    rows = rows_of(newest.values_list("player", "status", KIND, definition.column)[:MAX_NEWEST])
    endings = defaultdict[Player, list[EndedReturn]](list)
    for player, status, kind, value in rows:
        if status == "ended":
            endings[player].append((kind, value))
    kinds: tuple[Player, ...] = ("agent", "script")
    is_bounded = len(rows) == MAX_NEWEST
    others = [_figures(kind, endings[kind], definition, is_bounded=is_bounded) for kind in kinds]
    return [human, *(figures for figures in others if figures.n)]


def in_environment(
    environment: Environment,
    definition: Definition,
    total: ScopeFigures | None,
    viewer: Viewer,
    split: Split | None = None,
) -> list[PlayerFigures]:
    """Return the figures of people, in a split or in all, then those of all other players together.
    One query.

    `total`: figures of the attempts of those others by this definition.
    """
    human = _human(people_in(environment, viewer, split), definition)
    if total is None or not total.n:
        return [human]
    values = {field.name: getattr(total, field.name) for field in fields(Figures)}
    return [human, PlayerFigures(player="others", error=total.error, **values)]


def _human(episodes: QuerySet[Episode], definition: Definition) -> PlayerFigures:
    endings = episodes.filter(Exact(Unindexed(F("status")), "ended")).order_by()
    rows = rows_of(endings.values_list(KIND, definition.column))
    return _figures("human", cast(list[EndedReturn], rows), definition)


def _figures(
    player: Player,
    endings: Sequence[EndedReturn],
    definition: Definition,
    *,
    is_bounded: bool = False,
) -> PlayerFigures:
    returns = returns_counted(endings, definition.convention)
    return PlayerFigures(
        player=player,
        error=error_of(returns_sketch(returns)),
        is_bounded=is_bounded,
        **figures_from(endings, definition),
    )
