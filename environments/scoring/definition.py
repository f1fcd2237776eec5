"""The definition of return and success: how rewards make a return, above what threshold it is a
success, and by which convention rollouts count.

Every episode follows the definition of its environment, of which an address can replace parts.
Figures of one environment take a Definition, those of several OwnDefinitions; `Definitions` is
either.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

from django.db.models import Case, F, FloatField, Value, When
from django.db.models.expressions import Combinable

from environments.models import Environment
from environments.scoring.convention import CONVENTION_PARTS, STANDARD, Convention, Treatment
from environments.scoring.returns import Return, bar_of

DEFINITION_PARAMETERS = ("return", "threshold", *CONVENTION_PARTS)
"""Parameters of an address that replace parts of the definition in force."""
Part = TypeVar("Part")


@dataclass(frozen=True, slots=True)
class Definition:
    return_: Return = "sum"
    """How the rewards of an episode's steps make its return; "last" is the last reward that is not
    null."""
    threshold: float = 0.9
    """A return above it is a success; compare with `is_success`, which rounds both."""
    convention: Convention = STANDARD
    """How rollouts count that ended without a call, by expiry or by an infrastructure failure."""
    is_edge: bool = field(default=False, compare=False)
    """Whether blocks are known to be written with this threshold, so that successes counted from
    them are exact."""

    @property
    def bar(self) -> float:
        """What a return has to exceed to be a success: the threshold and the numbers that are
        rounded to it."""
        return bar_of(self.threshold)

    def is_success(self, value: float | None) -> bool:
        return value is not None and value > self.bar

    @property
    def column(self) -> str:
        """Name of the column of Episode, CurveBlock and StepSpan that holds the return."""
        return f"return_{self.return_}"

    def part(self, name: str) -> Treatment:
        """Return a part of the convention."""
        return cast(Treatment, getattr(self.convention, name))

    def of(self, environment: int | None) -> Definition:
        """Return the definition of the episodes of an environment: this one."""
        return self

    def among(self, environments: Iterable[int]) -> Definition:
        """Return the definition of the episodes of some environments: this one."""
        return self

    def value(self, prefix: str = "return_") -> Combinable:
        """Return the expression of the column that holds the return. `prefix`: the start of the
        column's name."""
        return F(f"{prefix}{self.return_}")

    def bar_value(self) -> Combinable:
        """Return the expression of `bar`."""
        return Value(self.bar, FloatField())

    def __str__(self) -> str:
        rule = f"{self.return_} > {self.threshold:,.15g}"
        differences = str(self.convention)
        return f"{rule}, {differences}" if differences else rule


@dataclass(frozen=True, slots=True)
class DefinitionOverrides:
    """The parts of a definition that an address replaces; None: as the environment has it."""

    return_: Return | None = None
    threshold: float | None = None
    no_call: Treatment | None = None
    expired: Treatment | None = None
    interrupted: Treatment | None = None
    env_error: Treatment | None = None

    def values(self) -> dict[str, str]:
        """Return these parts as parameters of an address."""
        values = {"return": self.return_, "threshold": self.threshold}
        values |= {name: getattr(self, name) for name in CONVENTION_PARTS}
        return {name: str(value) for name, value in values.items() if value is not None}

    @property
    def list_parts(self) -> dict[str, str]:
        """The parts that a list needs in its address to count as the figures do, and to mark the
        same successes."""
        return {name: text for name, text in self.values().items() if name != "return"}

    def convention(self, own: Convention) -> Convention:
        """Return the convention `own` with these parts replaced."""
        parts = {
            name: value for name in CONVENTION_PARTS if (value := getattr(self, name)) is not None
        }
        return replace(own, **parts) if parts else own


NO_OVERRIDES = DefinitionOverrides()


def definition_of(
    environment: Environment | None, overrides: DefinitionOverrides = NO_OVERRIDES
) -> Definition:
    """Return the environment's definition in force, or the default one without an environment, with
    the parts of `overrides` replaced."""
    if environment is None:
        base = Definition()
    else:
        edge = environment.success_threshold
        is_edge = edge == environment.declared_threshold and overrides.threshold in (None, edge)
        convention = Convention.from_code(environment.convention)
        base = Definition(cast(Return, environment.default_return), edge, convention, is_edge)
    return Definition(
        return_=overrides.return_ or base.return_,
        threshold=base.threshold if overrides.threshold is None else overrides.threshold,
        convention=overrides.convention(base.convention),
        is_edge=base.is_edge,
    )


@dataclass(frozen=True, slots=True)
class OwnDefinitions:
    """The definitions in force for episodes of several environments, of which each has its own."""

    by_environment: Mapping[int, Definition]
    """Definition by the environment's id."""
    other: Definition
    """The default definition, with the same parts replaced."""
    names: Mapping[int, str] = field(compare=False)
    """Name of the environment by its id."""

    @property
    def return_(self) -> Return | None:
        """The return that all have in common; None where they differ."""
        return self._common([definition.return_ for definition in self.by_environment.values()])

    @property
    def threshold(self) -> float | None:
        """The threshold that all have in common; None where they differ."""
        return self._common([definition.threshold for definition in self.by_environment.values()])

    @property
    def convention(self) -> Convention | None:
        """The convention that all have in common; None where they differ."""
        return self._common([definition.convention for definition in self.by_environment.values()])

    def part(self, name: str) -> Treatment | None:
        """Return the part of the convention that all have in common; None where they differ."""
        return self._common([definition.part(name) for definition in self.by_environment.values()])

    @staticmethod
    def _common(values: Sequence[Part]) -> Part | None:
        return values[0] if len(set(values)) == 1 else None

    def of(self, environment: int | None) -> Definition:
        """Return the definition of the episodes of an environment; the default one for an unknown
        environment."""
        return self.by_environment.get(environment or 0, self.other)

    def among(self, environments: Iterable[int]) -> Definitions:
        """Return the definitions of the episodes of some environments: a Definition if they have
        one in common, and the default one without an environment."""
        definitions = {pk: self.of(pk) for pk in sorted(set(environments))}
        first, *others = definitions.values() or [self.other]
        if any(other != first for other in others):
            return replace(self, by_environment=definitions)
        is_edge = all(definition.is_edge for definition in (first, *others))
        return replace(first, is_edge=is_edge)

    def value(self, prefix: str = "return_") -> Combinable:
        """Return the expression of the return in the columns of a model that has `environment_id`.

        `prefix`: the start of the columns' names.
        """
        whens = [
            When(environment_id__in=ids, then=F(f"{prefix}{name}"))
            for name, ids in self.by_return.items()
        ]
        default = F(f"{prefix}{self.other.return_}")
        return Case(*whens, default=default) if self.return_ != self.other.return_ else default

    def bar_value(self) -> Combinable:
        """Return the expression of what the return of a row of a model that has `environment_id`
        has to exceed."""
        whens = [
            When(environment_id=pk, then=definition.bar_value())
            for pk, definition in self.by_environment.items()
        ]
        return Case(*whens, default=self.other.bar_value())

    @property
    def by_return(self) -> dict[Return, list[int]]:
        """Ids of the environments by their return."""
        ids = defaultdict[Return, list[int]](list)
        for pk, definition in self.by_environment.items():
            ids[definition.return_].append(pk)
        return ids

    @property
    def by_environment_name(self) -> dict[str, Definition]:
        """Definition by the environment's name, in alphabetical order."""
        return dict(
            sorted((self.names[pk], definition) for pk, definition in self.by_environment.items())
        )

    def __str__(self) -> str:
        return "; ".join(
            f"{name}: {definition}" for name, definition in self.by_environment_name.items()
        )


Definitions = Definition | OwnDefinitions
"""The definition in force for some episodes, or the definitions where their environments differ."""
_DEFINING = ("name", "default_return", "success_threshold", "declared_threshold", "convention")


def definitions_in_force(overrides: DefinitionOverrides = NO_OVERRIDES) -> Definitions:
    """Return the definitions of the episodes of all environments, with the parts of `overrides`
    replaced. One query."""
    return definitions_of(list(Environment.objects.only(*_DEFINING)), overrides)


def definitions_of(
    environments: Sequence[Environment], overrides: DefinitionOverrides = NO_OVERRIDES
) -> Definitions:
    """Return the definitions of the episodes of some environments, with the parts of `overrides`
    replaced."""
    definitions = {
        environment.pk: definition_of(environment, overrides) for environment in environments
    }
    names = {environment.pk: environment.name for environment in environments}
    return OwnDefinitions(definitions, definition_of(None, overrides), names).among(definitions)
