"""Filters episodes by return, using one definition of return or that of each episode's environment."""

from __future__ import annotations

from django.db.models import Case, Expression, F, FloatField, Q, QuerySet, When
from django.db.models.expressions import Combinable

from environments.scoring.returns import RETURNS
from episodes.attempts.rule import IS_CONTINUATION
from episodes.models import Episode
from episodes.recording.task_statistics import FAILURES


def return_by(definition: str | None) -> Combinable:
    """Return the expression of an episode's return. `definition`: sum, last, max, mean; None: the environment's."""
    if definition:
        return F(f"return_{definition}")
    whens = [When(environment__default_return=name, then=F(f"return_{name}")) for name in RETURNS]
    found: Expression = Case(*whens, output_field=FloatField())
    return found


def attempts(episodes: QuerySet[Episode]) -> QuerySet[Episode]:
    """Those that ended and are no probe, no failure of the machinery and no continuation."""
    return episodes.filter(~IS_CONTINUATION, status="ended", is_probe=False).exclude(cause__in=FAILURES)


def at_least(episodes: QuerySet[Episode], value: float, definition: str | None) -> QuerySet[Episode]:
    """Return the ended episodes with a return of at least `value`."""
    return episodes.alias(its_return=return_by(definition)).filter(status="ended", its_return__gte=value)


def successes(episodes: QuerySet[Episode], definition: str | None) -> QuerySet[Episode]:
    """Return the attempts whose return is above their environment's threshold."""
    above = Q(its_return__gt=F("environment__success_threshold"))
    return attempts(episodes).alias(its_return=return_by(definition)).filter(above)


def narrowed(
    episodes: QuerySet[Episode], definition: str | None, *, least: float | None = None, only_successes: bool = False
) -> QuerySet[Episode]:
    """Return the episodes with a minimum return, or only successes. `definition`: None: each environment's own."""
    if least is not None:
        episodes = at_least(episodes, least, definition)
    return successes(episodes, definition) if only_successes else episodes
