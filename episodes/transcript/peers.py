"""The other attempts at an episode's task, how kinds of players did at it, and an episode's
neighbours. For pages."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from django.db.models import OuterRef, QuerySet, Subquery

from environments.models import Environment, Viewer
from environments.scoring.attempt_figures import Figures
from environments.scoring.convention import Coverage
from environments.scoring.definition import Definition, definition_of
from environments.scoring.returns import RETURNS, bar_of
from episodes.attempts.endings import rows_of
from episodes.attempts.rule import IS_ATTEMPT, KIND
from episodes.attempts.summary import EndedReturn, coverage_from, figures_from, returns_counted
from episodes.models import Episode
from episodes.models.privacy import outside_hidden_parts

MAX_PEERS = 2_000
"""Number of rollouts that are read, the newest ones."""
MAX_SEARCHED = 1_000
"""Number of attempts among which pairs to compare are searched, the newest ones."""
MAX_PAIRS = 8


@dataclass(frozen=True, slots=True)
class Peers:
    attempts: int
    """Number of attempts at the task among the newest MAX_PEERS rollouts."""
    coverage: Coverage
    is_all: bool
    """False when there are more than MAX_PEERS rollouts."""
    mean: float | None
    """Mean return; None if no attempt has a return."""
    rank: int | None
    """Rank of the episode, 1 for the highest return, equal for equal returns; None if it is no
    attempt or has none."""


def peers_of(episode: Episode, definition: Definition, viewer: Viewer) -> Peers:
    """Return the attempts at the task of `episode`, itself included, by `definition`. One query."""
    convention = definition.convention
    peers = _newest_rollouts(episode.task_id, viewer)
    rows = rows_of(peers.values_list("pk", KIND, definition.column)[: MAX_PEERS + 1])
    endings: list[EndedReturn] = [(kind, value) for _, kind, value in rows[:MAX_PEERS]]
    attempts = returns_counted(endings, convention)
    returns = [value for value in attempts if value is not None]
    own_endings = [(kind, value) for pk, kind, value in rows if pk == episode.pk]
    own = next(iter(returns_counted(own_endings, convention)), None)
    return Peers(
        attempts=len(attempts),
        coverage=coverage_from(endings, convention),
        is_all=len(rows) <= MAX_PEERS,
        mean=sum(value / len(returns) for value in returns) if returns else None,
        rank=None if own is None else 1 + sum(value > bar_of(own) for value in returns),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerStanding(Figures):
    """The results of players of one kind at a task."""

    player: str
    """ "agent", "human" or "script"."""


def standings(task: int, environment: Environment, viewer: Viewer) -> list[PeerStanding]:
    """Return the results of each kind of player at the task, by its newest rollouts, agents first.
    One query.

    Agents are listed even without a rollout. `environment`: that of the task, whose definition in
    force is used.
    """
    definition = definition_of(environment)
    endings: dict[str, list[EndedReturn]] = defaultdict(list, {"agent": []})
    rows = rows_of(
        _newest_rollouts(task, viewer).values_list("player", KIND, definition.column)[:MAX_PEERS]
    )
    for player, kind, value in rows:
        endings[player].append((kind, value))
    return [
        PeerStanding(player=player, **figures_from(endings[player], definition))
        for player in sorted(endings)
    ]


def _newest_rollouts(task: int, viewer: Viewer) -> QuerySet[Episode]:
    return Episode.objects.in_figures_for(viewer).filter(task=task).rollouts().order_by("-pk")


def pairs_to_compare(episodes: QuerySet[Episode]) -> list[tuple[int, int]]:
    """Return ids of two attempts at one task, one that failed and one that succeeded, newest first.

    At most MAX_PAIRS among the newest MAX_SEARCHED attempts of `episodes`, one for each task. Two
    queries.
    """
    columns = ("pk", "task_id", "environment_id", *(f"return_{name}" for name in RETURNS))
    rows = list(episodes.filter(IS_ATTEMPT).order_by("-pk").values(*columns)[:MAX_SEARCHED])
    environments = Environment.objects.in_bulk({row["environment_id"] for row in rows})
    definitions = {pk: definition_of(environment) for pk, environment in environments.items()}
    first: dict[tuple[int, bool], int] = {}
    pairs: dict[int, tuple[int, int]] = {}
    for row in rows:
        definition, task = definitions[row["environment_id"]], row["task_id"]
        value = row[definition.column]
        is_success = definition.is_success(value)
        first.setdefault((task, is_success), row["pk"])
        if task not in pairs and (task, not is_success) in first:
            pairs[task] = (first[task, False], first[task, True])
    return list(pairs.values())[:MAX_PAIRS]


def with_neighbours(episodes: QuerySet[Episode], viewer: Viewer) -> QuerySet[Episode]:
    """Return `episodes` annotated with the ids of their neighbours, without probes; None where
    there is no neighbour.

    `task_previous` and `task_next` belong to the same task, `run_previous` and `run_next` to the
    same run. Each takes one step along an index.
    """
    others = Episode.objects.filter(outside_hidden_parts(viewer), is_probe=False)
    neighbours: dict[str, Subquery] = {}
    for field in ("task", "run"):
        same = others.filter(**{field: OuterRef(field)})
        before = same.filter(pk__lt=OuterRef("pk")).order_by("-pk").values("pk")
        after = same.filter(pk__gt=OuterRef("pk")).order_by("pk").values("pk")
        neighbours[f"{field}_previous"] = Subquery(before[:1])
        neighbours[f"{field}_next"] = Subquery(after[:1])
    return episodes.annotate(**neighbours)
