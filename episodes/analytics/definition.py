"""Definition: what counts as an episode's return, and beyond what a return is a success."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast, get_args

from environments.models import Environment

Return = Literal["sum", "last", "max", "mean"]
RETURNS: tuple[Return, ...] = get_args(Return)


@dataclass(frozen=True, slots=True)
class Definition:
    return_: Return = "sum"
    """Of the rewards of an episode's steps; last: the last that is not null."""
    threshold: float = 0.9
    """A return above it is a success."""

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
        usual = Definition(cast(Return, environment.default_return), environment.success_threshold)
    return Definition(return_ or usual.return_, usual.threshold if threshold is None else threshold)
