"""Whether an attempt is a success, by the definition in force: in Python, and as a condition of the
ORM. Marks, filters and files use it; `definition.is_success` is the comparison, which figures use
too.

Every other episode is neither a success nor a failure: it runs, or no figure counts it.
"""

from __future__ import annotations

from typing import Any

from django.db.models import Case, FloatField, Q, Value, When
from django.db.models.lookups import GreaterThan, IsNull, LessThanOrEqual

from environments.scoring.definition import Definition, Definitions
from episodes.attempts.conventions import ConventionsInForce
from episodes.attempts.rule import kind_of


def success_of(episode: Any, definition: Definition) -> bool | None:
    """Return whether an Episode is a success; None: no figure counts it. Reads `episode.play` of
    people."""
    if episode.status != "ended":
        return None
    return success_of_ending(kind_of(episode), episode.returns[definition.return_], definition)


def success_of_ending(kind: str, value: float | None, definition: Definition) -> bool | None:
    """Return whether an ending is a success; None: no figure counts it.

    `kind`: see `rule.KIND`; `value`: the episode's own return.
    """
    treatment = definition.convention.treatments.get(kind, "keep")
    if treatment == "out":
        return None
    return definition.is_success(0.0 if treatment == "zero" else value)


def has_success(definitions: Definitions, is_success: bool) -> Q:
    """Return the condition of the attempts that are successes, or of those that are not."""
    conventions = ConventionsInForce.of_definitions(definitions)
    value, bar = definitions.value(), definitions.bar_value()
    if (zeros := conventions.zeros) is not None:
        value = Case(When(zeros, then=Value(0.0)), default=value, output_field=FloatField())
    if is_success:
        return conventions.attempts & Q(GreaterThan(value, bar))
    return conventions.attempts & (Q(LessThanOrEqual(value, bar)) | Q(IsNull(value, True)))
