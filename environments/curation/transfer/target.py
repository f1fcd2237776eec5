"""The split that an import goes into, which may not exist yet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import get_args

from environments.curation.splits import free_name
from environments.database.storable import is_storable
from environments.errors import nearest, shorten
from environments.files.rows import TransferError
from environments.models import UNRESTRICTED, Environment, Split
from environments.tasks.split_errors import FrozenSplit
from environments.tasks.unknown_environment import unknown_environment
from environments.wire import SplitType

TYPES: tuple[str, ...] = get_args(SplitType)
_SHOWN_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class ImportTarget:
    """A split of an environment, or the name and type of a new one."""

    environment: Environment
    name: str
    split: Split | None
    """None if the split will be created, with `type`."""
    type: str

    @classmethod
    def of(cls, environment: Environment, name: str, type: str | None = None) -> ImportTarget:
        """Return the target with this name.

        Raises: TransferError; FrozenSplit; ActionRefused for a name that no split can have.
        """
        if type is not None and type not in TYPES:
            raise TransferError(
                f"The type {shorten(repr(type), _SHOWN_CHARACTERS)} is unknown; "
                f"use {_listing(TYPES)}."
            )
        splits = Split.objects.existing().filter(environment=environment)
        split = splits.filter(name=name).first() if is_storable(name) else None
        if split is None:
            name = free_name(environment.pk, name)
            if type is None:
                others = list(splits.values_list("name", flat=True))
                raise TransferError(
                    f"{environment.name!r} has no split {shorten(repr(name), _SHOWN_CHARACTERS)}, "
                    f"but {_listing(others)}. "
                    f"To create it, give its type: {_listing(TYPES)}.{nearest(name, others)}"
                )
            return cls(environment, name, None, type)
        if split.frozen:
            raise FrozenSplit(split)
        if split.is_generated:
            raise TransferError(
                f"{environment.name!r} generates the tasks of {name!r} itself; import into a new "
                "split instead."
            )
        if type not in (None, split.type):
            raise TransferError(
                f"The split {name!r} already exists, with type {split.type}; leave out the type."
            )
        return cls(environment, name, split, split.type)


def environment_named(name: str) -> Environment:
    """Return the environment. Raises: TransferError, which suggests names."""
    environment = Environment.objects.filter(name=name).first() if is_storable(name) else None
    if environment is None:
        raise TransferError(unknown_environment(name, UNRESTRICTED))
    return environment


def _listing(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
