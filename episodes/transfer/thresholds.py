"""Filters episodes by the return that counts, using parts of one definition or those of each
episode's environment."""

from __future__ import annotations

from typing import cast

from django.db.models import Q

from environments.scoring.definition import DefinitionAsked, definitions_in_force
from environments.scoring.returns import floor_of
from episodes.attempts.conventions import ConventionsInForce
from episodes.attempts.rule import AttemptQuerySet
from episodes.models import Episode


def narrowed(
    episodes: AttemptQuerySet[Episode],
    asked: DefinitionAsked,
    *,
    least: float | None = None,
    only_successes: bool = False,
) -> AttemptQuerySet[Episode]:
    """Return the ended episodes with a return of at least `least`, or only successes: attempts
    above the threshold.

    What `asked` leaves open is as each environment defines it. One query to read definitions if
    anything is asked for.
    """
    if least is None and not only_successes:
        return episodes
    definitions = definitions_in_force(asked)
    conventions = ConventionsInForce.of_definitions(definitions)
    condition = Q() if least is None else Q(own_return__gte=floor_of(least))
    if only_successes:
        condition &= conventions.attempts & Q(own_return__gt=definitions.bar_value())
    found = (
        episodes.ended().alias(own_return=conventions.return_of(asked.return_)).filter(condition)
    )
    return cast("AttemptQuerySet[Episode]", found)
