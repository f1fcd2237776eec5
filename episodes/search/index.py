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

from episodes.models import TranscriptText
from episodes.search.documents import SearchDocument, documents_of
from episodes.search.words import Term, terms_of

MAX_MATCHES = 50_000
"""Of one search, the newest; words that stand in nearly every transcript are no filter."""
MAX_LOOKED_AT = 20_000
"""Documents that PostgreSQL reads to see whether the words of a phrase follow each other, the newest that have them
all. Its index does not know, and to read so many takes 0.2 to 0.7 s, by their length."""
BLOCK_EPISODES = 16_384
"""See the function that migration 0003 makes for PostgreSQL."""

_MAX_POSITIONS = 255
"""Of one word in one tsvector; PostgreSQL leaves out the others and takes those beyond 16,383 for that."""


# --- asking ----------------------------------------------------------------------------------------------------------


def matching(text: str, most: int | None = MAX_MATCHES) -> QuerySet[TranscriptText, int]:
    """Ids of the episodes whose transcripts have all terms of `text`, the newest first, `most` of them.

    Terms are words, "words in a row" and begin*. Any text may be asked for: one without a letter or digit matches none.
    None for `most`: all of them, however long that takes.
    """
    rows = TranscriptText.objects.order_by("-episode_id")
    if not (terms := terms_of(text)):
        rows = rows.none()
    elif connection.vendor == "sqlite":
        rows = rows.filter(pk__in=_in_sqlite(terms, most))
    else:
        rows = rows.filter(episode_id__in=_in_postgresql(terms, most))
    return rows.values_list("episode_id", flat=True)


def _in_sqlite(terms: Sequence[Term], most: int | None) -> RawSQL:
    table, limit = "episodes_transcriptwords", -1 if most is None else most
    wanted = " ".join(f'"{" ".join(term.words)}"{"*" if term.is_prefix else ""}' for term in terms)
    return RawSQL(f"SELECT rowid FROM {table} WHERE {table} MATCH %s ORDER BY rowid DESC LIMIT %s", [wanted, limit])


def _in_postgresql(terms: Sequence[Term], most: int | None) -> RawSQL:
    wanted = " & ".join(lexeme for term in terms for lexeme in _lexemes(term))
    phrases = " & ".join(f"({' <-> '.join(_lexemes(term))})" for term in terms if len(term.words) > 1)
    looked_at = None if most is None else MAX_LOOKED_AT
    sql = (
        "SELECT episodes_transcripts_with("
        "CAST(%s AS tsquery), CAST(%s AS tsquery), CAST(%s AS integer), CAST(%s AS integer),"
        " (SELECT MAX(episode_id) FROM episodes_transcripttext))"
    )
    return RawSQL(sql, [wanted, phrases or None, most, looked_at])


def _lexemes(term: Term) -> list[str]:
    """Words consist of letters and digits, so nothing has to be escaped."""
    *words, last = (f"'{word}'" for word in term.words)
    return [*words, f"{last}:*" if term.is_prefix else last]


# --- filling ---------------------------------------------------------------------------------------------------------


def index(episodes: Collection[int]) -> None:
    """Index the ended `episodes`, and index again those that already are. Runs within the caller's transaction."""
    write(documents_of(episodes))


def write(documents: Sequence[SearchDocument]) -> None:
    """Replaces what was there of the same episodes. Raises: django.db.Error."""
    with transaction.atomic():
        TranscriptText.objects.filter(episode_id__in=[one.episode for one in documents]).delete()
        (_fill_sqlite if connection.vendor == "sqlite" else _fill_postgresql)(documents)


def _fill_sqlite(documents: Sequence[SearchDocument]) -> None:
    rows = TranscriptText.objects.bulk_create(TranscriptText(episode_id=one.episode) for one in documents)
    values = [(row.pk, " ".join(one.words)) for row, one in zip(rows, documents, strict=True)]
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO episodes_transcriptwords (rowid, words) VALUES (%s, %s)", values)


def _fill_postgresql(documents: Sequence[SearchDocument]) -> None:
    sql = (
        "INSERT INTO episodes_transcripttext (episode_id, words)"
        " SELECT episode, CAST(words AS tsvector) FROM unnest(%s::bigint[], %s::text[]) AS d (episode, words)"
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, [[one.episode for one in documents], list(map(_tsvector, documents))])


def empty() -> None:
    """Delete all documents; the follower can make them again."""
    with transaction.atomic():
        TranscriptText.objects.all().delete()
        if connection.vendor == "sqlite":
            with connection.cursor() as cursor:
                cursor.execute("INSERT INTO episodes_transcriptwords (episodes_transcriptwords) VALUES ('delete-all')")


def _tsvector(document: SearchDocument) -> str:
    """As PostgreSQL reads one, with the lexeme of the document's block."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, word in enumerate(document.words, 1):
        places[word].append(place)
    lexemes = [f"'{word}':{','.join(map(str, found[:_MAX_POSITIONS]))}" for word, found in places.items()]
    return " ".join([f"'B{document.episode // BLOCK_EPISODES}'", *lexemes])
