"""Peers: the other attempts at an episode's task, and its neighbours among them and in its run. No request, no HTML."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import OuterRef, QuerySet, Subquery

from episodes.models import Episode

MAX_PEERS = 2_000
"""The newest attempts, which are looked at."""


@dataclass(frozen=True, slots=True)
class Peers:
    attempts: int
    """Those with a return too; MAX_PEERS at most."""
    is_all: bool
    mean: float | None
    """Of their returns; None without any."""
    rank: int | None
    """Of this one, 1 for the highest return, equal ones alike; None: it is no attempt, or has no return."""


def peers_of(episode: Episode, definition: str) -> Peers:
    """One query."""
    newest = _newest_attempts(episode.task_id).values_list("pk", f"return_{definition}")
    rows = list(newest[: MAX_PEERS + 1])
    returns = [value for _, value in rows[:MAX_PEERS] if value is not None]
    own = dict(rows).get(episode.pk)
    return Peers(
        attempts=min(len(rows), MAX_PEERS),
        is_all=len(rows) <= MAX_PEERS,
        mean=sum(value / len(returns) for value in returns) if returns else None,
        rank=None if own is None else 1 + sum(value > own for value in returns),
    )


@dataclass(frozen=True, slots=True)
class PeerStanding:
    """How players of one kind did at a task."""

    player: str
    """ "agent", "human" or "script"."""
    attempts: int
    mean: float | None
    """Of their returns; None without any."""
    successes: int


def standings(task: int, definition: str, threshold: float) -> list[PeerStanding]:
    """Of each kind of player that attempted it, by its newest attempts; agents first. One query."""
    rows = _newest_attempts(task).values_list("player", f"return_{definition}")[:MAX_PEERS]
    returns: dict[str, list[float | None]] = {}
    for player, value in rows:
        returns.setdefault(player, []).append(value)
    return [_standing(player, returns[player], threshold) for player in sorted(returns)]


def _newest_attempts(task: int) -> QuerySet[Episode]:
    return Episode.objects.filter(task=task).attempts().order_by("-pk")


def _standing(player: str, returns: list[float | None], threshold: float) -> PeerStanding:
    told = [value for value in returns if value is not None]
    mean = sum(value / len(told) for value in told) if told else None
    return PeerStanding(player, len(returns), mean, sum(value > threshold for value in told))


def with_neighbours(episodes: QuerySet[Episode]) -> QuerySet[Episode]:
    """With the ids of the previous and the next episode of the same task and run, probes left out; None: there is none.

    As `task_previous`, `task_next`, `run_previous`, `run_next`; each is one step along an index.
    """
    others = Episode.objects.filter(is_probe=False)
    found: dict[str, Subquery] = {}
    for field in ("task", "run"):
        same = others.filter(**{field: OuterRef(field)})
        before = same.filter(pk__lt=OuterRef("pk")).order_by("-pk").values("pk")[:1]
        after = same.filter(pk__gt=OuterRef("pk")).order_by("pk").values("pk")[:1]
        found |= {f"{field}_previous": Subquery(before), f"{field}_next": Subquery(after)}
    return episodes.annotate(**found)
