"""Episodes that people played, and the names of these people. They are few compared with the episodes of agents.

A name is the episode's key label: `@` and an account's name, or `@`, a guest's name and the guest's number.
"""

from __future__ import annotations

from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Func, Q, QuerySet
from django.db.models.sql.compiler import SQLCompiler

from episodes.models import Episode, Guest

MAX_LOOKED_AT = 50_000
"""Number of people's newest episodes whose names are listed."""


class Unindexed(Func):
    """A column that SQLite does not look up in an index. Of two equalities SQLite may choose the index of the one that
    most episodes meet, such as the environment instead of people. PostgreSQL has statistics and uses the plain column.
    """

    template = "%(expressions)s"
    arity = 1

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra: Any) -> Any:
        return self.as_sql(compiler, connection, template="+%(expressions)s", **extra)


def people() -> QuerySet[Episode]:
    """Return the episodes that people play or played, along the index of players that are not agents."""
    return Episode.objects.filter(~Q(player="agent"), player="human")


def person_of(episode: Episode) -> str:
    """Return the name of the person who played the episode; empty for other players."""
    return episode.key_label if episode.player == "human" else ""


def label_of(guest: Guest) -> str:
    """Return a guest's name. No username has a bracket, so no account is mistaken for a guest."""
    return f"@{guest.name} (guest {guest.pk})"


def names() -> list[str]:
    """Return the names of the people who played the newest MAX_LOOKED_AT episodes of people, in alphabetical order."""
    newest = people().order_by("-pk").values_list("key_label", flat=True)[:MAX_LOOKED_AT]
    return sorted(set(newest) - {""})
