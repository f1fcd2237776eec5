"""The interface of a part of the follower, which makes one kind of rows from endings.
`part_runner.py` drives it.

A part is used by one thread. What it writes commits together with its Progress, so each ending is
written exactly once, even if the process dies in between. Another process may follow at the same
time (`rebuild_statistics` next to a server): then one of the two transactions fails, and that part
has to `forget`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from django.db import models

from episodes.attempts.endings import Ending

MAX_DELETED = 200
"""Maximum number of rows deleted in one transaction."""


class RollupPart(Protocol):
    name: str
    """Name of the part's row in Progress; 40 characters at most."""
    most_endings: int
    """Endings followed in one transaction; to write them should take less than 50 ms of SQLite's
    write lock."""
    most_steps: int
    """Steps of all endings of a transaction together, unless a single ending has more; or
    NO_LIMIT."""

    def gather(self, endings: Sequence[Ending]) -> Any:
        """Return what `write` needs for `endings`, the next one or more in order. Called outside
        the transaction."""

    def write(self, rows: Any) -> None:
        """Write what `gather` returned. Called within the transaction. Raises: django.db.Error."""

    def forget(self) -> None:
        """Drop what is remembered between batches: the last batch was not written, or another
        process has followed."""

    def remove(self, endings: Sequence[Ending]) -> None:
        """Take endings that were followed out of the part's rows.

        Called within the transaction that removes the episodes, before they and their steps are
        deleted.
        Raises: django.db.Error.
        """

    def empty(self) -> bool:
        """Delete some of the part's rows; return whether there may be more. Called within a
        transaction."""


NO_LIMIT = 2**62


def delete_some(model: type[models.Model]) -> bool:
    """Delete MAX_DELETED rows at most; return whether there may be more."""
    ids = list(model._default_manager.order_by("pk").values_list("pk", flat=True)[:MAX_DELETED])
    model._default_manager.filter(pk__in=ids).delete()
    return len(ids) == MAX_DELETED
