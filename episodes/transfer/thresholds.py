"""Thresholds: episodes by their return, by one definition or by that of each episode's environment."""

from __future__ import annotations

from django.db.models import F, Q

from episodes.attempts.rule import AttemptQuerySet
from episodes.models import Episode


def at_least(episodes: AttemptQuerySet[Episode], value: float, definition: str | None) -> AttemptQuerySet[Episode]:
    """Those that ended with a return of `value` or more."""
    return episodes.ended().with_return(definition).filter(Q(own_return__gte=value))


def successes(episodes: AttemptQuerySet[Episode], definition: str | None) -> AttemptQuerySet[Episode]:
    """Attempts with a return above their environment's threshold."""
    threshold = F("environment__success_threshold")
    return episodes.attempts().with_return(definition).filter(Q(own_return__gt=threshold))


def narrowed(
    episodes: AttemptQuerySet[Episode],
    definition: str | None,
    *,
    least: float | None = None,
    only_successes: bool = False,
) -> AttemptQuerySet[Episode]:
    """What is left of a filter's episodes. `definition`: None: each environment's own."""
    if least is not None:
        episodes = at_least(episodes, least, definition)
    return successes(episodes, definition) if only_successes else episodes
