"""The full-text index of rollouts without an episode. The follower fills it; the list of rollouts
searches it.

A document holds the texts of a rollout's messages: visible texts, reasoning with its summary, and
tool calls with their results. Rollouts with an episode are found by the document of the episode,
which contains what the model and the user wrote. Words are stored as in `index.py`, but PostgreSQL
reads all documents with the words instead of the newest blocks, since clients rarely play
elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from django.db import connection, transaction
from django.db.models import Q
from django.db.models.expressions import RawSQL

from episodes.models import Rollout, RolloutText
from episodes.search.documents import SearchDocument, add_messages
from episodes.search.index import MAX_MATCHES, fts_query, matching, tsquery
from episodes.search.word_table import WordTable
from episodes.search.words import terms_of

TABLE = WordTable(RolloutText, "rollout_id", "episodes_rolloutwords")


def rollouts_matching(text: str) -> Q:
    """Return the condition that a rollout, or the episode that it belongs to, contains all terms of
    `text`."""
    # one list of ids, because with an OR of two, PostgreSQL goes through all rollouts
    with_episode = Rollout.objects.filter(episode__in=matching(text)).order_by()
    rows = RolloutText.objects.order_by().values_list("rollout_id", flat=True)
    if not (terms := terms_of(text)):
        rows = rows.none()
    elif connection.vendor == "sqlite":
        sql = f"SELECT rowid FROM {TABLE.words} WHERE {TABLE.words} MATCH %s ORDER BY rowid DESC LIMIT %s"  # nosec B608 # only our own names
        rows = rows.filter(pk__in=RawSQL(sql, [fts_query(terms), MAX_MATCHES]))  # nosec B611 # the values are parameters
    else:
        sql = (
            "SELECT id FROM episodes_rollouttext WHERE words @@ CAST(%s AS tsquery) ORDER BY "
            "rollout_id DESC LIMIT %s"
        )
        rows = rows.filter(pk__in=RawSQL(sql, [tsquery(terms), MAX_MATCHES]))  # nosec B611 # the values are parameters
    return Q(pk__in=rows.union(with_episode.values_list("pk", flat=True), all=True))


def documents_of_rollouts(rollouts: Collection[int]) -> list[SearchDocument]:
    """Return the documents of the `rollouts` that exist, in order of id."""
    rows = Rollout.objects.filter(pk__in=rollouts).order_by("pk")
    documents = {pk: SearchDocument(pk) for pk in rows.values_list("pk", flat=True)}
    add_messages(documents, has_calls=True)
    return list(documents.values())


def write(documents: Sequence[SearchDocument], without: Collection[int] = ()) -> None:
    """Store the documents in place of those of the same rollouts, and delete those of the rollouts
    in `without`."""
    with transaction.atomic():
        TABLE.remove(without)
        if documents:
            TABLE.write(documents)


def erase(rollouts: Collection[int]) -> None:
    """Delete the documents of `rollouts` with their words. Call it before what they contain is
    changed."""
    rows = RolloutText.objects.filter(rollout_id__in=rollouts, part=0)
    TABLE.erase(documents_of_rollouts(list(rows.values_list("rollout_id", flat=True))))


merge = TABLE.merge
