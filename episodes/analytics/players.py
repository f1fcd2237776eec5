"""Players: what people reached beside agents and scripted players, at a task and in an environment. For their pages.

People are few: they are found along the index of the players that are no agents, all of them. Of everybody else at a
task the newest MAX_NEWEST episodes are read; in an environment they are what is left of all without the people.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from django.db.models import F, QuerySet
from django.db.models.lookups import Exact

from environments.models import Environment, Task
from environments.scoring.definition import Definition
from episodes.analytics.figures import Figures
from episodes.attempts.endings import KIND, NO_ATTEMPTS, bounded, rows_of
from episodes.attempts.sketches import above, error_of, mean_of, sketch_of
from episodes.filtering.people import Unindexed, people
from episodes.models import Episode

MAX_NEWEST = 10_000
Player = Literal["human", "agent", "script", "others"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayerFigures:
    """Attempts of one kind of player."""

    player: Player
    """`others`: agents and scripted players together."""
    n: int
    """Attempts; those of people may be none."""
    scored: int
    """Attempts that have a return."""
    mean: float | None
    """Of the returns; None without any."""
    error: float | None
    """Standard error of the mean; None below two returns."""
    successes: int
    is_bounded: bool = False
    """Whether older attempts are missing."""


def people_in(environment: Environment) -> QuerySet[Episode]:
    return people().filter(Exact(Unindexed(F("environment_id")), environment.pk))


def at_task(task: Task, definition: Definition) -> list[PlayerFigures]:
    """People first, then whoever else attempted it. Two queries."""
    human = people().filter(Exact(Unindexed(F("task_id")), task.pk))
    newest = Episode.objects.filter(task=task).order_by("-pk").values_list("player", "status", KIND, definition.column)
    rows = rows_of(newest[:MAX_NEWEST])
    returns: dict[Player, list[float | None]] = defaultdict(list)
    for player, status, kind, value in rows:
        if status == "ended" and kind not in NO_ATTEMPTS and player != "human":
            returns[player].append(value)
    is_bounded = len(rows) == MAX_NEWEST
    kinds: tuple[Player, ...] = ("agent", "script")
    others = [_figures(kind, returns[kind], definition, is_bounded=is_bounded) for kind in kinds if returns[kind]]
    return [_human(human, definition), *others]


def in_environment(environment: Environment, definition: Definition, total: Figures | None) -> list[PlayerFigures]:
    """People first, then everybody else together. `total`: of all its attempts by that definition. One query."""
    human = _human(people_in(environment), definition)
    return [human, _without(total, human)] if total is not None and total.n > human.n else [human]


def _human(episodes: QuerySet[Episode], definition: Definition) -> PlayerFigures:
    ended = episodes.filter(Exact(Unindexed(F("status")), "ended")).order_by().values_list(KIND, definition.column)
    return _figures("human", [value for kind, value in rows_of(ended) if kind not in NO_ATTEMPTS], definition)


def _figures(
    player: Player, returns: Sequence[float | None], definition: Definition, *, is_bounded: bool = False
) -> PlayerFigures:
    values = [bounded(value) for value in returns if value is not None]
    sketch = sketch_of(values)
    return PlayerFigures(
        player=player,
        n=len(returns),
        scored=len(values),
        mean=mean_of(sketch),
        error=error_of(sketch),
        successes=above(sketch, definition.threshold),
        is_bounded=is_bounded,
    )


def _without(total: Figures, human: PlayerFigures) -> PlayerFigures:
    """What an episode that ended between two queries may upset is kept from falling below nothing."""
    scored = max(0, total.scored - human.scored)
    mean = None
    if scored and total.mean is not None:
        mean = (total.mean * total.scored - (human.mean or 0.0) * human.scored) / scored
    return PlayerFigures(
        player="others",
        n=total.n - human.n,
        scored=scored,
        mean=mean,
        error=_error_without(total, human, scored, mean),
        successes=max(0, total.successes - human.successes),
    )


def _error_without(total: Figures, human: PlayerFigures, scored: int, mean: float | None) -> float | None:
    """Squares about a mean add up, with the distance of the two means between them; so they can be taken apart."""
    if scored < 2 or mean is None or total.error is None:
        return None
    squares = _squares(total.error, total.scored) - _squares(human.error or 0.0, human.scored)
    apart = mean - (mean if human.mean is None else human.mean)
    squares -= apart * apart * scored * human.scored / (scored + human.scored)
    return math.sqrt(max(0.0, squares) / (scored - 1) / scored) if math.isfinite(squares) else None


def _squares(error: float, count: int) -> float:
    return error * error * count * (count - 1)
