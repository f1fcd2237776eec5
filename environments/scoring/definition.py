"""The definition of return and success: how rewards make a return, and above what threshold it is a success."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from environments.models import Environment
from environments.scoring.returns import Return


@dataclass(frozen=True, slots=True)
class Definition:
    return_: Return = "sum"
    """How the rewards of an episode's steps make its return; "last" is the last reward that is not null."""
    threshold: float = 0.9
    """A return above it is a success."""
    is_edge: bool = field(default=False, compare=False)
    """Whether blocks are known to be written with this threshold, so that successes counted from them are exact."""

    @property
    def column(self) -> str:
        """Name of the column of Episode, CurveBlock and StepSpan that holds the return."""
        return f"return_{self.return_}"

    def __str__(self) -> str:
        return f"{self.return_} > {self.threshold:g}"


def definition_of(
    environment: Environment | None, return_: Return | None = None, threshold: float | None = None
) -> Definition:
    """Return the environment's definition in force, with `return_` and `threshold` replaced where they are given.

    Without an environment the default definition takes its place.
    """
    if environment is None:
        base = Definition()
    else:
        edge = environment.success_threshold
        is_edge = edge == environment.declared_threshold and threshold in (None, edge)  # it is unchanged
        base = Definition(cast(Return, environment.default_return), edge, is_edge)
    return Definition(return_ or base.return_, base.threshold if threshold is None else threshold, base.is_edge)
