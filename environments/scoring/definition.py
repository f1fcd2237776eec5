"""Definition: what counts as an episode's return, and beyond what a return is a success."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from environments.models import Environment
from environments.scoring.returns import Return


@dataclass(frozen=True, slots=True)
class Definition:
    return_: Return = "sum"
    """Of the rewards of an episode's steps; last: the last that is not null."""
    threshold: float = 0.9
    """A return above it is a success."""
    is_edge: bool = field(default=False, compare=False)
    """Whether it is known to be the threshold that blocks were written with, so that they tell success exactly."""

    @property
    def column(self) -> str:
        """Of Episode and of CurveBlock."""
        return f"return_{self.return_}"

    def __str__(self) -> str:
        return f"{self.return_} > {self.threshold:g}"


def definition_of(
    environment: Environment | None, return_: Return | None = None, threshold: float | None = None
) -> Definition:
    """The environment's definition in force, with what is given in place of it; without one the usual definition."""
    if environment is None:
        usual = Definition()
    else:
        edge = environment.success_threshold
        is_edge = edge == environment.declared_threshold and threshold in (None, edge)  # nobody has changed it
        usual = Definition(cast(Return, environment.default_return), edge, is_edge)
    return Definition(return_ or usual.return_, usual.threshold if threshold is None else threshold, usual.is_edge)
