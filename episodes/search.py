"""Search: which episodes have a text in their transcript. Filled by the follower as episodes end, asked by pages.

Each episode's document (`documents.py`) is a row of TranscriptText, and its words stand under the row's id: on SQLite
in a full-text table (FTS5) that keeps no second copy of the text, on PostgreSQL in a column `words` with a GIN index.
Rows are never changed, so what is left of a document whose row is gone is found by nobody. PostgreSQL knows of a word's
first 255 places within the first 16,383 of a document, so there a phrase may be missed in the rest of a long one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

from django.db import connection, transaction
from django.db.models import QuerySet
from django.db.models.expressions import RawSQL

from episodes.derived import TranscriptText
from episodes.documents import Document, documents_of
from episodes.terms import Term, terms_of

MOST_MATCHES = 50_000
"""Of one search, the newest; words that stand in nearly every transcript are no filter."""

_FIND = {
    "sqlite": "SELECT rowid FROM episodes_transcriptwords WHERE episodes_transcriptwords MATCH %s ORDER BY rowid DESC",
    "postgresql": "SELECT id FROM episodes_transcripttext WHERE words @@ CAST(%s AS tsquery) ORDER BY id DESC",
}
_MOST_POSITIONS = 255
"""Of one word in one tsvector; PostgreSQL leaves out the others and takes those beyond 16,383 for that."""


# --- asking ----------------------------------------------------------------------------------------------------------


def matching(text: str, most: int | None = MOST_MATCHES) -> QuerySet[TranscriptText, int]:
    """Ids of the episodes whose transcripts have all terms of `text`, those that ended last first, `most` of them.

    Terms are words, "words in a row" and begin*. Any text may be asked for: one without a letter or digit matches none.
    None for `most`: all of them, however long that takes.
    """
    terms = terms_of(text)
    rows = TranscriptText.objects.order_by("-pk")
    if not terms:
        return rows.none().values_list("episode_id", flat=True)
    is_sqlite = connection.vendor == "sqlite"
    query = " ".join(map(_fts5, terms)) if is_sqlite else " & ".join(map(_tsquery, terms))
    limit = "" if most is None else f" LIMIT {int(most)}"
    found = RawSQL(f"{_FIND[connection.vendor]}{limit}", [query])
    return rows.filter(pk__in=found).values_list("episode_id", flat=True)


def _fts5(term: Term) -> str:
    return f'"{" ".join(term.words)}"{"*" if term.is_prefix else ""}'


def _tsquery(term: Term) -> str:
    return "(" + " <-> ".join(f"'{word}'" for word in term.words) + (":*)" if term.is_prefix else ")")


# --- filling ---------------------------------------------------------------------------------------------------------


def index(episodes: Collection[int]) -> None:
    """Make the ended `episodes` findable; those that are already are read anew. Within the caller's transaction."""
    write(documents_of(episodes))


def write(documents: Sequence[Document]) -> None:
    """Replaces what was there of the same episodes. Raises: django.db.Error."""
    with transaction.atomic():
        TranscriptText.objects.filter(episode_id__in=[one.episode for one in documents]).delete()
        (_fill_sqlite if connection.vendor == "sqlite" else _fill_postgresql)(documents)


def _fill_sqlite(documents: Sequence[Document]) -> None:
    rows = TranscriptText.objects.bulk_create(TranscriptText(episode_id=one.episode) for one in documents)
    values = [(row.pk, " ".join(one.words)) for row, one in zip(rows, documents, strict=True)]
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO episodes_transcriptwords (rowid, words) VALUES (%s, %s)", values)


def _fill_postgresql(documents: Sequence[Document]) -> None:
    sql = (
        "INSERT INTO episodes_transcripttext (episode_id, words)"
        " SELECT episode, CAST(words AS tsvector) FROM unnest(%s::bigint[], %s::text[]) AS d (episode, words)"
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, [[one.episode for one in documents], [_tsvector(one.words) for one in documents]])


def empty() -> None:
    """Forget all documents; the follower can make them anew."""
    with transaction.atomic():
        TranscriptText.objects.all().delete()
        if connection.vendor == "sqlite":
            with connection.cursor() as cursor:
                cursor.execute("INSERT INTO episodes_transcriptwords (episodes_transcriptwords) VALUES ('delete-all')")


def _tsvector(words: Sequence[str]) -> str:
    """As PostgreSQL reads one; words consist of letters and digits, so nothing has to be escaped."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, word in enumerate(words, 1):
        places[word].append(place)
    return " ".join(f"'{word}':{','.join(map(str, found[:_MOST_POSITIONS]))}" for word, found in places.items())
