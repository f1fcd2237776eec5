"""The conventions in force for some episodes, as conditions and expressions of the ORM.

A filter that names an environment has one convention. Otherwise every episode follows that of its
environment. Few environments declare a convention, so these are named by id in conditions that are
otherwise those of a single one.
Used by lists, exports, peers and components, so that they find what figures count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from django.db.models import Case, Count, FloatField, Q, QuerySet, Value, When
from django.db.models.expressions import Combinable

from environments.models import DEFAULT_CONVENTION, Environment
from environments.scoring.convention import (
    CONVENTION_PARTS,
    STANDARD,
    Convention,
    Coverage,
    coverage_of,
    coverages_together,
)
from environments.scoring.definition import (
    NO_OVERRIDES,
    Definition,
    DefinitionOverrides,
    Definitions,
    definition_of,
)
from episodes.attempts.rule import FAILURES, IS_UNCOUNTED_PLAY, KIND, NO_CALL, OWN_CAUSES, return_of

_CAUSES = (*OWN_CAUSES, "expired", NO_CALL, *FAILURES)


@dataclass(frozen=True, slots=True)
class ConventionsInForce:
    """How rollouts count by the conventions of their environments."""

    base: Convention = STANDARD
    """Convention of all environments that are not among `others`."""
    others: Mapping[Convention, Sequence[int]] = field(default_factory=dict)
    """Ids of environments by their convention."""

    @classmethod
    def of(
        cls, environment: Environment | None = None, definition: DefinitionOverrides = NO_OVERRIDES
    ) -> Self:
        """Return the convention of the environment, or of each without one, with the given parts
        replaced.

        One query without an environment.
        """
        if environment is not None:
            return cls(definition_of(environment, definition).convention)
        base = definition.convention(STANDARD)
        others = defaultdict[Convention, list[int]](list)
        rows = Environment.objects.exclude(convention=DEFAULT_CONVENTION).order_by("pk")
        for pk, code in rows.values_list("pk", "convention"):
            others[definition.convention(Convention.from_code(code))].append(pk)
        others.pop(base, None)
        return cls(base, dict(others))

    @classmethod
    def of_definitions(cls, definitions: Definitions) -> Self:
        """Return the conventions of these definitions."""
        if isinstance(definitions, Definition):
            return cls(definitions.convention)
        others = defaultdict[Convention, list[int]](list)
        for pk, definition in definitions.by_environment.items():
            others[definition.convention].append(pk)
        others.pop(definitions.other.convention, None)
        return cls(definitions.other.convention, dict(others))

    @property
    def attempts(self) -> Q:
        """Condition of the rollouts that count, with their return or as 0."""
        return self._each(_counted)

    @property
    def zeros(self) -> Q | None:
        """Condition of the rollouts that count as 0 although they may have another return; None if
        there are none.

        Endings without a call are not among them, because their returns are 0.
        """
        if not any(_zero_causes(convention) for convention in (self.base, *self.others)):
            return None
        return self._each(_zero)

    def return_of(self, return_: str | None) -> Combinable:
        """Return the expression of the return that counts: 0 for `zeros`, else the episode's own.

        `return_`: see `rule`.
        """
        own, zeros = return_of(return_), self.zeros
        return (
            own
            if zeros is None
            else Case(When(zeros, then=Value(0.0)), default=own, output_field=FloatField())
        )

    def _each(self, condition: Callable[[Convention], Q]) -> Q:
        """Return the condition that applies `condition` to the episodes of each convention."""
        if not self.others:
            return condition(self.base)
        ids = [pk for other in self.others.values() for pk in other]
        conditions = condition(self.base) & ~Q(environment__in=ids)
        for convention, of_convention in self.others.items():
            conditions |= condition(convention) & Q(environment__in=of_convention)
        return conditions


def coverage_among(
    episodes: QuerySet[Any], definition: DefinitionOverrides = NO_OVERRIDES
) -> Coverage:
    """Return the coverage of `episodes`, each by the convention of its environment with the given
    parts. One query."""
    kinds = defaultdict[str, dict[str, int]](dict)
    rows = episodes.filter(status="ended").order_by()
    for code, kind, count in rows.values_list("environment__convention", KIND).annotate(
        count=Count("pk")
    ):
        kinds[code][kind] = count
    conventions = {code: definition.convention(Convention.from_code(code)) for code in kinds}
    return coverages_together(
        [coverage_of(endings, conventions[code]) for code, endings in kinds.items()]
    )


def parts_in_address(
    convention: Convention, environment: Environment | None = None
) -> dict[str, str]:
    """Return the parts of a convention that the address of a list needs, so that the list counts by
    it.

    `environment`: the one that the address names. Without one, a list takes the convention of each
    episode's environment, so all parts are needed if any environment declares its own. One query
    then.
    """
    if environment is not None:
        return convention.parameters(definition_of(environment).convention)
    if Environment.objects.exclude(convention=DEFAULT_CONVENTION).exists():
        return {name: getattr(convention, name) for name in CONVENTION_PARTS}
    return convention.parameters(STANDARD)


def _counted(convention: Convention) -> Q:
    # lists of one value are deliberate: Django writes `is_probe=False` as NOT is_probe, which
    # SQLite does not look up
    causes = [cause for cause in _CAUSES if convention.treatments[cause] != "out"]
    return Q(status="ended", cause__in=causes, is_probe__in=[False]) & _is_rollout(causes)


def _zero(convention: Convention) -> Q:
    causes = _zero_causes(convention)
    return Q(status="ended", cause__in=causes, is_probe__in=[False]) & _is_rollout(causes)


def _zero_causes(convention: Convention) -> list[str]:
    return [cause for cause in ("expired", *FAILURES) if convention.treatments[cause] == "zero"]


def _is_rollout(causes: Sequence[str]) -> Q:
    """Return the condition that leaves out continuations, among which only infrastructure failures
    are rollouts."""
    failures = [cause for cause in causes if cause in FAILURES]
    return ~IS_UNCOUNTED_PLAY | Q(cause__in=failures) if failures else ~IS_UNCOUNTED_PLAY
