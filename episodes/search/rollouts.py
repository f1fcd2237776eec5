"""The full-text index of rollouts without an episode. The follower fills it; the list of rollouts searches it.

A document holds the texts of a rollout's messages: visible texts, reasoning with its summary, and tool calls with their
results. Rollouts with an episode are found by the document of the episode, which contains what the model and the user
wrote. Words are stored as in `index.py`, but PostgreSQL reads all documents with the words instead of the newest
blocks, since clients rarely play elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from django.db import connection, transaction
from django.db.models import Q, QuerySet
from django.db.models.expressions import RawSQL

from episodes.models import Rollout, RolloutText
from episodes.search.documents import SearchDocument, add_messages
from episodes.search.index import MAX_MATCHES, erase_words, fts_query, matching, tsquery, tsvector
from episodes.search.index import merge as merge_table
from episodes.search.words import terms_of

_WORDS = "episodes_rolloutwords"


def rollouts_matching(text: str) -> Q:
    """Return the condition that a rollout, or the episode that it belongs to, contains all terms of `text`."""
    return Q(pk__in=_alone(text)) | Q(episode__in=matching(text))


def _alone(text: str) -> QuerySet[RolloutText, int]:
    rows = RolloutText.objects.order_by("-rollout_id")
    if not (terms := terms_of(text)):
        return rows.none().values_list("rollout_id", flat=True)
    if connection.vendor == "sqlite":
        sql = f"SELECT rowid FROM {_WORDS} WHERE {_WORDS} MATCH %s ORDER BY rowid DESC LIMIT %s"  # nosec B608 # only our own names
        found: RawSQL = RawSQL(sql, [fts_query(terms), MAX_MATCHES])  # nosec B611 # the values are parameters
        return rows.filter(pk__in=found).values_list("rollout_id", flat=True)
    sql = "SELECT id FROM episodes_rollouttext WHERE words @@ CAST(%s AS tsquery) ORDER BY rollout_id DESC LIMIT %s"
    return rows.filter(pk__in=RawSQL(sql, [tsquery(terms), MAX_MATCHES])).values_list("rollout_id", flat=True)  # nosec B611 # the values are parameters


def documents_of_rollouts(rollouts: Collection[int]) -> list[SearchDocument]:
    """Return the documents of the `rollouts` that exist, in order of id."""
    found = Rollout.objects.filter(pk__in=rollouts).order_by("pk").values_list("pk", flat=True)
    documents = {pk: SearchDocument(pk) for pk in found}
    add_messages(documents, has_calls=True)
    return list(documents.values())


def write(documents: Sequence[SearchDocument], without: Collection[int] = ()) -> None:
    """Store the documents in place of those of the same rollouts, and delete those of the rollouts in `without`."""
    with transaction.atomic():
        RolloutText.objects.filter(rollout_id__in=[*without, *(one.subject for one in documents)]).delete()
        if documents:
            (_fill_sqlite if connection.vendor == "sqlite" else _fill_postgresql)(documents)


def erase(rollouts: Collection[int]) -> None:
    """Delete the documents of `rollouts` with their words. Call it before what they contain is changed."""
    rows = dict(RolloutText.objects.filter(rollout_id__in=rollouts).values_list("rollout_id", "pk"))
    with transaction.atomic():
        erase_words(_WORDS, [(rows[one.subject], one) for one in documents_of_rollouts(rows)])
        RolloutText.objects.filter(pk__in=rows.values()).delete()


def merge() -> None:
    """Write SQLite's full-text table again without the words that were erased."""
    merge_table(_WORDS)


def _fill_sqlite(documents: Sequence[SearchDocument]) -> None:
    rows = RolloutText.objects.bulk_create(RolloutText(rollout_id=one.subject) for one in documents)
    values = [(row.pk, " ".join(one.words)) for row, one in zip(rows, documents, strict=True)]
    with connection.cursor() as cursor:
        cursor.executemany(f"INSERT INTO {_WORDS} (rowid, words) VALUES (%s, %s)", values)  # nosec B608 # only our own names


def _fill_postgresql(documents: Sequence[SearchDocument]) -> None:
    sql = (
        "INSERT INTO episodes_rollouttext (rollout_id, words)"
        " SELECT rollout, CAST(words AS tsvector) FROM unnest(%s::bigint[], %s::text[]) AS d (rollout, words)"
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, [[one.subject for one in documents], [tsvector(one.words) for one in documents]])
