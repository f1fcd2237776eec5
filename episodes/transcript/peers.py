"""The other attempts at an episode's task, how kinds of players did at it, and an episode's neighbours. For pages."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import OuterRef, QuerySet, Subquery

from episodes.models import Episode

MAX_PEERS = 2_000
"""Number of attempts that are read, the newest ones."""


@dataclass(frozen=True, slots=True)
class Peers:
    attempts: int
    """Number of attempts at the task, at most MAX_PEERS."""
    is_all: bool
    """False when there are more than MAX_PEERS attempts."""
    mean: float | None
    """Mean return; None if no attempt has a return."""
    rank: int | None
    """Rank of the episode, 1 for the highest return, equal for equal returns; None if it is no attempt or has none."""


def peers_of(episode: Episode, definition: str) -> Peers:
    """Return the other attempts at the task of `episode`, by `definition`. One query."""
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
    """The results of players of one kind at a task."""

    player: str
    """ "agent", "human" or "script"."""
    attempts: int
    mean: float | None
    """Mean return; None if no attempt has a return."""
    successes: int


def standings(task: int, definition: str, threshold: float) -> list[PeerStanding]:
    """Return the standing of each kind of player at the task, by the newest attempts, agents first. One query."""
    rows = _newest_attempts(task).values_list("player", f"return_{definition}")[:MAX_PEERS]
    returns: dict[str, list[float | None]] = {}
    for player, value in rows:
        returns.setdefault(player, []).append(value)
    return [_standing(player, returns[player], threshold) for player in sorted(returns)]


def _newest_attempts(task: int) -> QuerySet[Episode]:
    return Episode.objects.filter(task=task).attempts().order_by("-pk")


def _standing(player: str, returns: list[float | None], threshold: float) -> PeerStanding:
    present = [value for value in returns if value is not None]
    mean = sum(value / len(present) for value in present) if present else None
    return PeerStanding(player, len(returns), mean, sum(value > threshold for value in present))


def with_neighbours(episodes: QuerySet[Episode]) -> QuerySet[Episode]:
    """`episodes` annotated with the ids of their neighbours, without probes; None where there is no neighbour.

    `task_previous` and `task_next` belong to the same task, `run_previous` and `run_next` to the same run. Each takes
    one step along an index.
    """
    others = Episode.objects.filter(is_probe=False)
    found: dict[str, Subquery] = {}
    for field in ("task", "run"):
        same = others.filter(**{field: OuterRef(field)})
        before = same.filter(pk__lt=OuterRef("pk")).order_by("-pk").values("pk")[:1]
        after = same.filter(pk__gt=OuterRef("pk")).order_by("pk").values("pk")[:1]
        found |= {f"{field}_previous": Subquery(before), f"{field}_next": Subquery(after)}
    return episodes.annotate(**found)
