"""Filters episodes by return, using one definition of return or that of each episode's environment."""

from __future__ import annotations

from django.db.models import F, Q

from episodes.attempts.rule import AttemptQuerySet
from episodes.models import Episode


def at_least(episodes: AttemptQuerySet[Episode], value: float, definition: str | None) -> AttemptQuerySet[Episode]:
    """Return the ended episodes with a return of at least `value`."""
    return episodes.ended().with_return(definition).filter(Q(own_return__gte=value))


def successes(episodes: AttemptQuerySet[Episode], definition: str | None) -> AttemptQuerySet[Episode]:
    """Return the attempts whose return is above their environment's threshold."""
    threshold = F("environment__success_threshold")
    return episodes.attempts().with_return(definition).filter(Q(own_return__gt=threshold))


def narrowed(
    episodes: AttemptQuerySet[Episode],
    definition: str | None,
    *,
    least: float | None = None,
    only_successes: bool = False,
) -> AttemptQuerySet[Episode]:
    """Return the episodes with a minimum return, or only successes. `definition`: None: each environment's own."""
    if least is not None:
        episodes = at_least(episodes, least, definition)
    return successes(episodes, definition) if only_successes else episodes
