"""The actions that change an environment as a whole: its scoring, who may play and see it. Used by
its admin page."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from django.db import transaction

from environments.curation.action import ActionOutcome, ActionRefused, Plan
from environments.curation.work import recorded
from environments.database.background_jobs import Progress, silent
from environments.models import Environment
from environments.scoring.returns import RETURNS


@dataclass(frozen=True)
class EnvironmentSetting:
    """The base class of the actions. Their other fields have the names of the columns that they
    set."""

    kind: ClassVar[str]
    environment: int

    def plan(self) -> Plan:
        row = self._row()
        return Plan(f"Change {row.name!r}", 0, 0, sentences=(self.sentence(row),))

    def apply(self, author: str, progress: Progress = silent) -> ActionOutcome:
        row = self._row()
        reason = getattr(self, "disabled_reason", "")
        with recorded(self.kind, author, reason, environment=row.pk) as action:
            before = self.values_of(row)
            with transaction.atomic():
                self.change(row)
            action.settings(before, self.values_of(row))
            return action.done(self.sentence(row), 0)

    @classmethod
    def values_of(cls, row: Environment) -> dict[str, Any]:
        """Return the settings in force, by the names of the fields."""
        return {field.name: getattr(row, field.name) for field in fields(cls)[1:]}

    def change(self, row: Environment) -> None:
        """Set the columns and save them. Raises: ActionRefused."""
        names = [field.name for field in fields(self)[1:]]
        for name in names:
            setattr(row, name, getattr(self, name))
        row.save(update_fields=names)

    def sentence(self, row: Environment) -> str:
        """Return what holds once the change is made. Raises: ActionRefused."""
        raise NotImplementedError

    def _row(self) -> Environment:
        row = Environment.objects.filter(pk=self.environment).first()
        if row is None:
            raise ActionRefused("This environment does not exist. Choose another one.")
        return row


@dataclass(frozen=True)
class SetScoring(EnvironmentSetting):
    """Set how an environment's returns are computed and judged. None: as the class declares."""

    kind = "scoring"
    default_return: str | None = None
    reward_low: float | None = None
    reward_high: float | None = None
    success_threshold: float | None = None

    def change(self, row: Environment) -> None:
        definition = row.definition
        self._set(row)
        # so that the record counts again
        row.counted = row.counted if row.definition == definition else ""
        row.save(update_fields=[*self.values_of(row), "counted"])

    def sentence(self, row: Environment) -> str:
        self._set(row)
        how = "by its own definition" if is_overridden(row) else "as its class declares"
        return (
            f"{row.name!r} is scored {how}: returns are the {row.default_return} of the rewards, "
            f"from {row.reward_low:,.15g} to {row.reward_high:,.15g}; more than "
            f"{row.success_threshold:,.15g} is a success."
        )

    def _set(self, row: Environment) -> None:
        """Set the columns in force of `row`. Raises: ActionRefused."""
        for name, default in _declared(row).items():
            value = getattr(self, name)
            setattr(row, name, default if value is None else value)
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


@dataclass(frozen=True)
class SetEnabled(EnvironmentSetting):
    """Set whether agents may open sessions of an environment."""

    kind = "enabled"
    is_enabled: bool
    disabled_reason: str = ""
    """Why the server disables it; empty if a person does."""

    def sentence(self, row: Environment) -> str:
        return f"{row.name!r} is {'enabled' if self.is_enabled else 'disabled'}."


@dataclass(frozen=True)
class SetBlind(EnvironmentSetting):
    """Set whether people who play an environment see rewards only at the end."""

    kind = "blind"
    is_blind: bool

    def sentence(self, row: Environment) -> str:
        how = (
            "blind: rewards are shown at the end" if self.is_blind else "with rewards as they come"
        )
        return f"People play {row.name!r} {how}."


@dataclass(frozen=True)
class SetPrivacy(EnvironmentSetting):
    """Set whether an environment is private, and its members: ids of accounts and of groups."""

    kind = "privacy"
    is_private: bool
    members: Collection[int] = ()
    groups: Collection[int] = ()

    @classmethod
    def values_of(cls, row: Environment) -> dict[str, Any]:
        members, groups = (
            sorted(rows.values_list("pk", flat=True)) for rows in (row.members, row.member_groups)
        )
        return {"is_private": row.is_private, "members": members, "groups": groups}

    def change(self, row: Environment) -> None:
        row.members.set(self.members)
        row.member_groups.set(self.groups)
        row.is_private = self.is_private
        row.save(update_fields=["is_private"])

    def sentence(self, row: Environment) -> str:
        if not self.is_private:
            return f"{row.name!r} is not private."
        accounts, groups = len(self.members), len(self.groups)
        return (
            f"{row.name!r} is private. Members: {accounts} account{'' if accounts == 1 else 's'} "
            f"and {groups} group{'' if groups == 1 else 's'}."
        )


SETTINGS: dict[str, type[EnvironmentSetting]] = {
    setting.kind: setting for setting in (SetScoring, SetEnabled, SetBlind, SetPrivacy)
}


def is_overridden(environment: Environment) -> bool:
    """Return whether people changed how its returns are computed and judged."""
    return SetScoring.values_of(environment) != _declared(environment)


def _declared(row: Environment) -> dict[str, Any]:
    """Return what the class declares, by the columns in force."""
    return {
        "default_return": row.declared_return,
        "reward_low": row.declared_low,
        "reward_high": row.declared_high,
        "success_threshold": row.declared_threshold,
    }
