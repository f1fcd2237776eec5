"""SetScoring and SetEnabled: what people decide about an environment as a whole."""

from __future__ import annotations

from dataclasses import dataclass

from environments.curation.plan import Outcome, Plan, Progress, silent
from environments.models import Environment

RETURNS = ("sum", "last", "max", "mean")


@dataclass(frozen=True, slots=True)
class SetScoring:
    """How an environment's returns are made and read, instead of what the class declares. None: as declared."""

    environment: int
    default_return: str | None = None
    reward_low: float | None = None
    reward_high: float | None = None
    success_threshold: float | None = None

    def plan(self) -> Plan:
        raise NotImplementedError

    def apply(self, author: str, progress: Progress = silent) -> Outcome:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class SetEnabled:
    """Whether agents may open sessions of an environment."""

    environment: int
    is_enabled: bool

    def plan(self) -> Plan:
        raise NotImplementedError

    def apply(self, author: str, progress: Progress = silent) -> Outcome:
        raise NotImplementedError


def is_overridden(environment: Environment) -> bool:
    """Whether people changed how its returns are made and read."""
    raise NotImplementedError
