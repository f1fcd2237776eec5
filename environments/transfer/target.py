"""Target: the split that an import goes into, which may yet have to be made."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import get_args

from django.db.models import Max

from environments.changes import FrozenSplit
from environments.errors import shorten
from environments.models import Environment, Split
from environments.transfer.rows import TransferError
from environments.wire import SplitType

TYPES: tuple[str, ...] = get_args(SplitType)
MOST_NAME_CHARACTERS = 200
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Target:
    environment: Environment
    name: str
    split: Split | None
    """None: it is to be made, with `type`."""
    type: str

    @property
    def is_new(self) -> bool:
        return self.split is None or _is_abandoned(self.split)

    @classmethod
    def of(cls, environment: Environment, name: str, type: str | None = None) -> Target:
        """Raises: TransferError, FrozenSplit."""
        if type is not None and type not in TYPES:
            raise TransferError(f"The type {shorten(repr(type), _SHOWN)} is unknown; use {_listing(TYPES)}.")
        split = environment.splits.select_related("environment").filter(name=name).first() if _is_name(name) else None
        if split is None or _is_abandoned(split):
            return cls._new(environment, name, split, type)
        if split.frozen:
            raise FrozenSplit(split)
        if environment.is_procedural and not split.is_curated:
            raise TransferError(
                f"{environment.name!r} makes the tasks of {name!r} itself; import into a new split beside it."
            )
        if type not in (None, split.type):
            raise TransferError(f"The split {name!r} is there, of type {split.type}; leave the type out.")
        return cls(environment, name, split, split.type)

    @classmethod
    def _new(cls, environment: Environment, name: str, split: Split | None, type: str | None) -> Target:
        if not _is_name(name):
            limit = f"1 to {MOST_NAME_CHARACTERS} printable characters, no blanks at its ends and no slash"
            raise TransferError(f"A split cannot be named {shorten(repr(name), _SHOWN)}: a name has {limit}.")
        if type is None:
            others = list(environment.splits.values_list("name", flat=True))
            raise TransferError(
                f"{environment.name!r} has no split {shorten(repr(name), _SHOWN)}, but {_listing(others)}; to make it, "
                f"give its type: {_listing(TYPES)}.{nearest(name, others)}"
            )
        return cls(environment, name, split, type)

    def opened(self) -> Split:
        """The row; one that is made is served by nobody until something is committed to it."""
        if self.split is not None:
            if self.split.type != self.type:
                Split.objects.filter(pk=self.split.pk).update(type=self.type)
            return self.split
        last = self.environment.splits.aggregate(last=Max("position"))["last"]
        made = {"type": self.type, "position": 0 if last is None else last + 1, "is_curated": True, "is_served": False}
        return Split.objects.get_or_create(environment=self.environment, name=self.name, defaults=made)[0]


def environment_named(name: str) -> Environment:
    """Raises: TransferError with the names that are there."""
    names = list(Environment.objects.values_list("name", flat=True))
    if name in names:
        return Environment.objects.get(name=name)
    known = _listing(names) if names else "none yet: serve or sync_environments makes them"
    shown = shorten(repr(name), _SHOWN)
    raise TransferError(f"Unknown environment {shown}; this database has {known}.{nearest(name, names)}")


def nearest(name: str, names: Iterable[str]) -> str:
    """A sentence more, if one of the names is much like it."""
    near = difflib.get_close_matches(name[:200].lower(), list(names), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def _is_name(name: str) -> bool:
    is_sound = name.isprintable() and name == name.strip() and "/" not in name
    return is_sound and 0 < len(name) <= MOST_NAME_CHARACTERS


def _is_abandoned(split: Split) -> bool:
    """Made for an import that never came to its end."""
    return split.is_curated and not split.version


def _listing(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
