"""The newest running episodes, with their figures so far, and the newest ended ones. Used by lists
and the overview."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db.models import Count, F, Max, OuterRef, Subquery, Sum

from environments.database.storable import finite
from environments.models import Viewer
from episodes.filtering.columns import with_list_columns
from episodes.models import Episode, Step

MAX_ADDED = 2_000
"""Number of steps of one running episode whose rewards a page adds up."""
_SHARES = 2048.0
"""Rewards are divided by this before they are added, because PostgreSQL refuses sums beyond the
largest number. It is more than MAX_ADDED, and a power of two, so that the division rounds nothing.
"""

Returns = Mapping[str, float | None]
_UNKNOWN: Returns = dict.fromkeys(("sum", "last", "max", "mean"))
_LONG_AGO = datetime(1, 1, 2, tzinfo=UTC)
_NONE_YET: Returns = {**_UNKNOWN, "sum": 0.0}


@dataclass(frozen=True, slots=True)
class SoFar:
    """Figures of a running episode, computed from its steps, because its row gets them when it
    ends."""

    steps: int
    returns: Returns
    """Returns by definition; all None if there are too many rewards to add up, or if they are
    hidden."""


@dataclass(frozen=True, slots=True)
class Playing:
    """A running or ended episode as a line of a list."""

    episode: Episode
    """The episode with what `task_lines` needs."""
    steps: int
    return_so_far: float | None
    """Return by the definition of the list; None if there is none."""

    @property
    def is_running(self) -> bool:
        return self.episode.status == "running"


def running(
    limit: int,
    viewer: Viewer,
    definition: str | None = None,
    blind: Collection[int] = (),
) -> list[Playing]:
    """Return the newest running episodes. Three queries.

    `definition`: of the return; None for each environment's own. `blind`: ids of episodes whose
    return is not shown.
    """
    rows = with_list_columns(Episode.objects.seen_by(viewer).filter(status="running"))
    episodes = list(rows.order_by("-pk")[:limit])
    figures = so_far([episode.pk for episode in episodes], blind)
    return [
        _playing(episode, figures[episode.pk].steps, figures[episode.pk].returns, definition)
        for episode in episodes
    ]


def so_far(ids: Collection[int], blind: Collection[int] = ()) -> dict[int, SoFar]:
    """Return the figures of running episodes by id; `blind`: ids of those whose return is not
    shown. Two queries; none without ids."""
    if not ids:
        return {}
    steps = Step.objects.filter(episode__in=ids).order_by()
    last = dict(steps.values_list("episode").annotate(Max("index")))
    few = [pk for pk, index in last.items() if index < MAX_ADDED and pk not in blind]
    with_reward = Step.objects.filter(episode=OuterRef("episode"), reward__isnull=False)
    rows = (
        steps.filter(episode__in=few)
        .values_list("episode")
        .annotate(
            shares=Sum(F("reward") / _SHARES),
            count=Count("reward"),
            most=Max("reward"),
            latest=Subquery(with_reward.order_by("-index").values("reward")[:1]),
        )
    )
    returns = {pk: _returns(*sums) for pk, *sums in rows}
    without = {pk: _UNKNOWN if pk in blind or pk in last else _NONE_YET for pk in ids}
    return {pk: SoFar(last.get(pk, -1) + 1, returns.get(pk, without[pk])) for pk in ids}


def ended(limit: int, viewer: Viewer, definition: str | None = None) -> list[Playing]:
    """Return the ended episodes that started last. One query. `definition`: as for `running`."""
    # the bound leads to the index
    rows = with_list_columns(Episode.objects.ended().seen_by(viewer).filter(created__gt=_LONG_AGO))
    return [
        _playing(episode, episode.steps_count, episode.returns, definition)
        for episode in rows.order_by("-created", "-pk")[:limit]
    ]


def running_count(viewer: Viewer) -> int:
    return Episode.objects.seen_by(viewer).filter(status="running").count()


def _playing(episode: Episode, steps: int, returns: Returns, definition: str | None) -> Playing:
    return Playing(episode, steps, returns[definition or episode.environment.default_return])


def _returns(shares: float | None, count: int, most: float | None, latest: float | None) -> Returns:
    total = finite((shares or 0.0) * _SHARES) or 0.0
    return {
        "sum": total,
        "last": latest,
        "max": most,
        "mean": None if most is None else min(total / count, most),
    }
