"""People among the players: their episodes, and the names under which those stand. Few beside what agents play.

A name is the label of the record: `@` before an account's name, and the guest's number after a guest's.
"""

from __future__ import annotations

from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Func, Q, QuerySet
from django.db.models.sql.compiler import SQLCompiler

from episodes.models import Episode, Guest

MAX_LOOKED_AT = 50_000
"""Newest episodes of people among which names are looked for."""


class Unindexed(Func):
    """A column that SQLite does not look up in an index. Of two equalities it may take the index of the one that most
    episodes meet, such as an environment's in place of that of people. PostgreSQL has statistics and sees the column.
    """

    template = "%(expressions)s"
    arity = 1

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra: Any) -> Any:
        return self.as_sql(compiler, connection, template="+%(expressions)s", **extra)


def people() -> QuerySet[Episode]:
    """Episodes that people play or played, along the index of the players that are no agents."""
    return Episode.objects.filter(~Q(player="agent"), player="human")


def person_of(episode: Episode) -> str:
    """Empty when no person played it."""
    return episode.key_label if episode.player == "human" else ""


def label_of(guest: Guest) -> str:
    """No username has a bracket, so no account is taken for a guest."""
    return f"@{guest.name} (guest {guest.pk})"


def names() -> list[str]:
    """Whoever played lately, in alphabetical order."""
    newest = people().order_by("-pk").values_list("key_label", flat=True)[:MAX_LOOKED_AT]
    return sorted(set(newest) - {""})
