"""The actions that change an environment as a whole: its scoring, who may play and see it. Used by
its admin page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from django.db import transaction

from environments.curation.action import ActionOutcome, ActionRefused, Plan
from environments.curation.work import recorded
from environments.database.jobs import Progress, silent
from environments.models import Environment
from environments.scoring.returns import RETURNS

T = TypeVar("T")
SCORING = ("default_return", "reward_low", "reward_high", "success_threshold")
ENABLED = ("is_enabled", "disabled_reason")


@dataclass(frozen=True, slots=True)
class SetScoring:
    """Set how an environment's returns are computed and judged. None: as the class declares."""

    environment: int
    default_return: str | None = None
    reward_low: float | None = None
    reward_high: float | None = None
    success_threshold: float | None = None

    def plan(self) -> Plan:
        row = _find(self.environment)
        self._set(row)
        sentences = (
            f"Returns are the {row.default_return} of the rewards, from {row.reward_low:,.15g} to "
            f"{row.reward_high:,.15g}; more than {row.success_threshold:,.15g} is a success.",
            "Figures are computed again from the recorded episodes; rewards and episodes stay as "
            "they are.",
        )
        return Plan(f"Change how {row.name!r} is scored", 0, 0, sentences=sentences)

    def apply(self, author: str, progress: Progress = silent) -> ActionOutcome:
        row = _find(self.environment)
        definition, before = row.definition, _values(row, SCORING)
        with recorded("scoring", author, environment=row.pk) as action:
            self._set(row)
            # so that the record counts again
            row.counted = row.counted if row.definition == definition else ""
            row.save(update_fields=[*SCORING, "counted"])
            action.settings(before, _values(row, SCORING))
            how = "by its own definition" if is_overridden(row) else "as its class declares"
            return action.done(f"{row.name!r} is scored {how}.", 0)

    def _set(self, row: Environment) -> None:
        """Set the columns in force of `row`. Raises: ActionRefused."""
        row.default_return = _or(self.default_return, row.declared_return)
        row.reward_low = _or(self.reward_low, row.declared_low)
        row.reward_high = _or(self.reward_high, row.declared_high)
        row.success_threshold = _or(self.success_threshold, row.declared_threshold)
        if row.default_return not in RETURNS:
            raise ActionRefused(
                f"Return {row.default_return!r} is unknown. Use {', '.join(RETURNS)}."
            )
        if not all(map(math.isfinite, (row.reward_low, row.reward_high, row.success_threshold))):
            raise ActionRefused(
                "The lowest reward, the highest reward and the threshold have to be finite numbers."
            )
        if row.reward_low >= row.reward_high:
            raise ActionRefused(
                f"The lowest reward ({row.reward_low:,.15g}) has to be less than the highest "
                f"({row.reward_high:,.15g})."
            )


@dataclass(frozen=True, slots=True)
class SetEnabled:
    """Set whether agents may open sessions of an environment."""

    environment: int
    is_enabled: bool
    because: str = ""
    """Why the server disables it; empty if a person does."""

    def plan(self) -> Plan:
        row = _find(self.environment)
        if self.is_enabled:
            return Plan(
                f"Enable {row.name!r}", 0, 0, sentences=("Agents can open sessions again.",)
            )
        sentence = "Agents can't open new sessions. Running sessions continue."
        return Plan(f"Disable {row.name!r}", 0, 0, sentences=(sentence,))

    def apply(self, author: str, progress: Progress = silent) -> ActionOutcome:
        row = _find(self.environment)
        before = _values(row, ENABLED)
        with recorded("enabled", author, self.because, environment=row.pk) as action:
            row.is_enabled, row.disabled_reason = self.is_enabled, self.because
            row.save(update_fields=ENABLED)
            action.settings(before, _values(row, ENABLED))
            return action.done(
                f"{row.name!r} is {'enabled' if self.is_enabled else 'disabled'}.", 0
            )


@dataclass(frozen=True, slots=True)
class SetBlind:
    """Set whether people who play an environment see rewards only at the end."""

    environment: int
    is_blind: bool

    def plan(self) -> Plan:
        row = _find(self.environment)
        when = (
            "only at the end of an episode"
            if self.is_blind
            else "as they come, unless they choose to play blind"
        )
        sentence = (
            f"People who play it see rewards {when}. Running episodes continue as they started."
        )
        return Plan(
            f"Let people play {row.name!r} {'blind' if self.is_blind else 'seeing rewards'}",
            0,
            0,
            sentences=(sentence,),
        )

    def apply(self, author: str, progress: Progress = silent) -> ActionOutcome:
        row = _find(self.environment)
        how = (
            "blind: rewards are shown at the end" if self.is_blind else "with rewards as they come"
        )
        with recorded("blind", author, environment=row.pk) as action:
            action.settings({"is_blind": row.is_blind}, {"is_blind": self.is_blind})
            row.is_blind = self.is_blind
            row.save(update_fields=["is_blind"])
            return action.done(f"People play {row.name!r} {how}.", 0)


@dataclass(frozen=True, slots=True)
class SetPrivacy:
    """Set whether an environment is private, and its members: ids of accounts and of groups."""

    environment: int
    is_private: bool
    members: frozenset[int] = frozenset()
    groups: frozenset[int] = frozenset()

    def plan(self) -> Plan:
        row = _find(self.environment)
        if self.is_private:
            sentence = (
                "Only members, operators and API keys that name it can see it. Running sessions "
                "continue."
            )
            return Plan(f"Make {row.name!r} private", 0, 0, sentences=(sentence,))
        return Plan(
            f"Make {row.name!r} public",
            0,
            0,
            sentences=("Everybody who may see the pages can see it.",),
        )

    def apply(self, author: str, progress: Progress = silent) -> ActionOutcome:
        row = _find(self.environment)
        with recorded("privacy", author, environment=row.pk) as action:
            before = privacy_of(row)
            self._set(row)
            action.settings(before, privacy_of(row))
            return action.done(self._sentence(row), 0)

    def _set(self, row: Environment) -> None:
        with transaction.atomic():
            row.members.set(self.members)
            row.member_groups.set(self.groups)
            row.is_private = self.is_private
            row.save(update_fields=["is_private"])

    def _sentence(self, row: Environment) -> str:
        if not self.is_private:
            return f"{row.name!r} is not private."
        members = (
            f"{_counted(len(self.members), 'account')} and {_counted(len(self.groups), 'group')}"
        )
        return f"{row.name!r} is private. Members: {members}."


def is_overridden(environment: Environment) -> bool:
    """Return whether people changed how its returns are computed and judged."""
    in_force = (
        environment.default_return,
        environment.reward_low,
        environment.reward_high,
        environment.success_threshold,
    )
    of_the_class = (
        environment.declared_return,
        environment.declared_low,
        environment.declared_high,
        environment.declared_threshold,
    )
    return in_force != of_the_class


def privacy_of(row: Environment) -> dict[str, Any]:
    """Return whether the environment is private, and the ids of its members and groups."""
    members, groups = (
        sorted(some.values_list("pk", flat=True)) for some in (row.members, row.member_groups)
    )
    return {"is_private": row.is_private, "members": members, "groups": groups}


def _values(row: Environment, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(row, name) for name in names}


def _find(environment: int) -> Environment:
    row = Environment.objects.filter(pk=environment).first()
    if row is None:
        raise ActionRefused("This environment does not exist. Choose another one.")
    return row


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _or(value: T | None, default: T) -> T:
    return default if value is None else value
