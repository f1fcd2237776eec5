"""Selection: which tasks. The task list and every bulk action go by it, so a filter means one thing everywhere."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import Q


@dataclass(frozen=True, slots=True)
class Batch:
    """Some tasks of a selection, in its order."""

    ids: tuple[int, ...]
    positions: tuple[int, ...]
    """Where they stand, if the selection is of a split; else empty."""
    first: str
    """Cursor before the first; give it to `batch(..., backward=True)` for what comes before."""
    last: str
    """Cursor after the last task that was looked at, found or not: the next batch begins there."""
    is_last: bool
    """Nothing comes after."""
    seen: int
    """Tasks that were looked at."""


@dataclass(frozen=True, slots=True)
class Count:
    tasks: int
    is_exact: bool
    """Otherwise there are that many at least."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Tasks that satisfy all that is given; with `ids` these alone.

    Newest first; of a split in its order; of a bucket but `unseen` by falling success rate, then newest first.
    """

    environment: int | None = None
    split: int | None = None
    """Tasks that stand in it, quarantined ones included."""
    tag: str = ""
    state: str = ""
    """active or quarantined."""
    source: str = ""
    """code, import, edit, played; or dropped: tasks that a class listed once and no class lists now."""
    bucket: str = ""
    """unseen, hopeless, learnable or saturated, by the thresholds in the settings."""
    search: str = ""
    """A part of the spec's text, as written or as JSON escapes it; the case of ASCII letters does not matter."""
    ids: tuple[int, ...] = ()

    @classmethod
    def parse(cls, values: Mapping[str, str]) -> Selection:
        """From the parameters of a URL or form, by the names of the fields above, `ids` joined by commas.

        What is unknown or unreadable counts as not given.
        """
        raise NotImplementedError

    def values(self) -> dict[str, str]:
        """What `parse` reads; fields that are not given are left out."""
        raise NotImplementedError

    def condition(self) -> Q:
        """The same as a condition on a queryset of Task."""
        raise NotImplementedError

    def batch(self, after: str = "", limit: int = 50, *, backward: bool = False, seconds: float | None = None) -> Batch:
        """The next `limit` tasks after the cursor, fewer when `seconds` have passed. A cursor that cannot be read
        counts as none.
        """
        raise NotImplementedError

    def all_ids(self) -> array[int]:
        """Every task once, 8 bytes each; in the split's order, else oldest first."""
        raise NotImplementedError

    def count(self, limit: int, seconds: float | None = None) -> Count:
        """How many, counted up to `limit` and for so long."""
        raise NotImplementedError
