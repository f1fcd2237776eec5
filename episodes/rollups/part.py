"""Part: one kind of rows that is derived from endings. `following.py` drives it; `parts.py` lists them all.

A part is used by one thread. What it writes commits together with its Progress, so each ending is written exactly once,
whatever dies in between. Another process may follow too (`rebuild_statistics` beside a server): then one of the two
transactions fails and the part is told to `forget`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from django.db import models

from episodes.attempts.endings import Ending

MAX_DELETED = 200
"""Rows in one transaction."""


class RollupPart(Protocol):
    name: str
    """In Progress; 40 characters at most."""
    most_endings: int
    """Followed in one transaction; writing them should take under 50 ms, for it holds SQLite's write lock."""
    most_steps: int
    """Of all those endings together, unless one ending alone has more; NO_LIMIT: however many."""

    def gather(self, endings: Sequence[Ending]) -> Any:
        """What is to be written for `endings`, one or more, next in order. Outside of the transaction."""

    def write(self, gathered: Any) -> None:
        """Within the transaction. Raises: django.db.Error."""

    def forget(self) -> None:
        """Drop what is remembered between batches: the last one was not written, or another process has followed."""

    def empty(self) -> bool:
        """Delete some of the part's rows, within a transaction; whether there may be more."""


NO_LIMIT = 2**62


def delete_some(model: type[models.Model]) -> bool:
    """Whether there may be more rows."""
    ids = list(model._default_manager.order_by("pk").values_list("pk", flat=True)[:MAX_DELETED])
    model._default_manager.filter(pk__in=ids).delete()
    return len(ids) == MAX_DELETED
