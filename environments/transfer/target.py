"""Target: the split that an import goes into, which may yet have to be made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import get_args

from environments import command_line
from environments.curation.splits import existing_splits, free_name
from environments.database.storable import is_storable
from environments.errors import nearest, shorten
from environments.models import Environment, Split
from environments.tasks.split_change import FrozenSplit
from environments.transfer.rows import TransferError
from environments.wire import SplitType

TYPES: tuple[str, ...] = get_args(SplitType)
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class ImportTarget:
    environment: Environment
    name: str
    split: Split | None
    """None: it is to be made, with `type`."""
    type: str

    @classmethod
    def of(cls, environment: Environment, name: str, type: str | None = None) -> ImportTarget:
        """Raises: TransferError, FrozenSplit, and Refused of curation for a name that no split can have."""
        if type is not None and type not in TYPES:
            raise TransferError(f"The type {shorten(repr(type), _SHOWN)} is unknown; use {_listing(TYPES)}.")
        splits = existing_splits().filter(environment=environment)
        split = splits.filter(name=name).first() if is_storable(name) else None
        if split is None:
            return cls._new(environment, name, type)
        if split.frozen:
            raise FrozenSplit(split)
        if split.is_generated:
            raise TransferError(
                f"{environment.name!r} makes the tasks of {name!r} itself; import into a new split beside it."
            )
        if type not in (None, split.type):
            raise TransferError(f"The split {name!r} is there, of type {split.type}; leave the type out.")
        return cls(environment, name, split, split.type)

    @classmethod
    def _new(cls, environment: Environment, name: str, type: str | None) -> ImportTarget:
        name = free_name(environment.pk, name)
        if type is None:
            others = list(existing_splits().filter(environment=environment).values_list("name", flat=True))
            raise TransferError(
                f"{environment.name!r} has no split {shorten(repr(name), _SHOWN)}, but {_listing(others)}; to make it, "
                f"give its type: {_listing(TYPES)}.{nearest(name, others)}"
            )
        return cls(environment, name, None, type)


def environment_named(name: str) -> Environment:
    """Raises: TransferError with the names that are there."""
    names = list(Environment.objects.values_list("name", flat=True))
    if name in names:
        return Environment.objects.get(name=name)
    known = _listing(names) if names else f"none yet: {command_line.command('sync_environments')} makes them"
    shown = shorten(repr(name), _SHOWN)
    raise TransferError(f"Unknown environment {shown}; this database has {known}.{nearest(name, names)}")


def _listing(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
