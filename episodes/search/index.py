"""The full-text index of transcripts. The follower fills it as episodes end; filters of episodes search it.

The document of each episode (`documents.py`) is a row of TranscriptText. Its words are stored under the id of that row:
on SQLite in a full-text table (FTS5) without a second copy of the text, on PostgreSQL in a column `words` with a GIN
index. Rows are never changed, so words that remain after their row was deleted are never found. PostgreSQL stores the
first 255 positions of a word within the first 16,383 of a document, so a phrase later in a long document may be missed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

from django.db import connection, transaction
from django.db.models import QuerySet
from django.db.models.expressions import RawSQL

from environments.database.write_turns import give_way
from episodes.models import TranscriptText
from episodes.search.documents import SearchDocument, documents_of
from episodes.search.words import Term, terms_of

MAX_MATCHES = 50_000
"""Number of matches of one search, the newest ones. Words that nearly every transcript contains do not filter."""
MAX_LOOKED_AT = 20_000
"""Number of documents that PostgreSQL reads to check that the words of a phrase follow each other: the newest with all
words. The index does not store the order. Reading so many takes 0.2 to 0.7 s, depending on their length."""
BLOCK_EPISODES = 16_384
"""Number of episodes in a block, the unit of the function that migration 0003 creates for PostgreSQL."""

MERGED_PAGES = 500
"""Pages that one step of `merge` writes, for about 20 ms."""
MAX_MERGES = 100_000
_MAX_POSITIONS = 255
"""Number of positions of one word in a tsvector. PostgreSQL drops the others and clips those beyond 16,383."""


# --- searching-------------------------------------------------------------------------------------------------------


def matching(text: str, most: int | None = MAX_MATCHES) -> QuerySet[TranscriptText, int]:
    """Return the ids of up to `most` episodes whose transcripts contain all terms of `text`, newest first.

    Terms are words, "words in a row" and prefix*. Any text is allowed; one without a letter or digit matches nothing.
    None for `most` returns all matches, however long that takes.
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
    sql = f"SELECT rowid FROM {table} WHERE {table} MATCH %s ORDER BY rowid DESC LIMIT %s"  # nosec B608 # only our own names
    return RawSQL(sql, [fts_query(terms), limit])  # nosec B611 # the values are parameters


def fts_query(terms: Sequence[Term]) -> str:
    """Return the query of SQLite's full-text search for all terms."""
    return " ".join(f'"{" ".join(term.words)}"{"*" if term.is_prefix else ""}' for term in terms)


def tsquery(terms: Sequence[Term]) -> str:
    """Return the query of PostgreSQL's full-text search for all terms, with the words of a phrase in a row."""
    return " & ".join(f"({' <-> '.join(_lexemes(term))})" for term in terms)


def _in_postgresql(terms: Sequence[Term], most: int | None) -> RawSQL:
    wanted = " & ".join(lexeme for term in terms for lexeme in _lexemes(term))
    phrases = " & ".join(f"({' <-> '.join(_lexemes(term))})" for term in terms if len(term.words) > 1)
    looked_at = None if most is None else MAX_LOOKED_AT
    sql = (
        "SELECT episodes_transcripts_with("
        "CAST(%s AS tsquery), CAST(%s AS tsquery), CAST(%s AS integer), CAST(%s AS integer),"
        " (SELECT MAX(episode_id) FROM episodes_transcripttext))"
    )
    return RawSQL(sql, [wanted, phrases or None, most, looked_at])  # nosec B611 # the values are parameters


def _lexemes(term: Term) -> list[str]:
    """Return the lexemes of a term. Words consist of letters and digits, so nothing has to be escaped."""
    *words, last = (f"'{word}'" for word in term.words)
    return [*words, f"{last}:*" if term.is_prefix else last]


# --- filling ---------------------------------------------------------------------------------------------------------


def index(episodes: Collection[int]) -> None:
    """Add the ended `episodes` to the index, or replace them there, within the transaction of the caller."""
    write(documents_of(episodes))


def write(documents: Sequence[SearchDocument]) -> None:
    """Store the documents and replace those of the same episodes. Raises: django.db.Error."""
    with transaction.atomic():
        TranscriptText.objects.filter(episode_id__in=[one.subject for one in documents]).delete()
        (_fill_sqlite if connection.vendor == "sqlite" else _fill_postgresql)(documents)


def _fill_sqlite(documents: Sequence[SearchDocument]) -> None:
    rows = TranscriptText.objects.bulk_create(TranscriptText(episode_id=one.subject) for one in documents)
    values = [(row.pk, " ".join(one.words)) for row, one in zip(rows, documents, strict=True)]
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO episodes_transcriptwords (rowid, words) VALUES (%s, %s)", values)


def _fill_postgresql(documents: Sequence[SearchDocument]) -> None:
    sql = (
        "INSERT INTO episodes_transcripttext (episode_id, words)"
        " SELECT episode, CAST(words AS tsvector) FROM unnest(%s::bigint[], %s::text[]) AS d (episode, words)"
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, [[one.subject for one in documents], list(map(_tsvector, documents))])


def remove(episodes: Collection[int]) -> None:
    """Delete the documents of the episodes. On SQLite their words stay in the full-text table, where nothing finds
    them, until `empty`.
    """
    TranscriptText.objects.filter(episode_id__in=episodes).delete()


def erase(episodes: Collection[int]) -> None:
    """Delete the documents of `episodes` with their words. Call it before what they contain is changed."""
    rows = dict(TranscriptText.objects.filter(episode_id__in=episodes).values_list("episode_id", "pk"))
    with transaction.atomic():
        erase_words("episodes_transcriptwords", [(rows[one.subject], one) for one in documents_of(rows)])
        TranscriptText.objects.filter(pk__in=rows.values()).delete()


def erase_words(table: str, documents: Sequence[tuple[int, SearchDocument]]) -> None:
    """Delete words from a full-text table of SQLite, which keeps no text and so has to be told which words they are."""
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.executemany(
                f"INSERT INTO {table} ({table}, rowid, words) VALUES ('delete', %s, %s)",  # nosec B608 # only our own names
                [(pk, " ".join(one.words)) for pk, one in documents],
            )


def merge(table: str = "episodes_transcriptwords") -> None:
    """Write SQLite's full-text table again in small portions, without the words that were erased."""
    with connection.cursor() as cursor:
        for number in range(MAX_MERGES):
            before = _changes(cursor)
            pages = -MERGED_PAGES if number == 0 else MERGED_PAGES
            cursor.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('merge', %s)", [pages])  # nosec B608 # only our own names
            if _changes(cursor) - before < 2:  # SQLite's sign that nothing is left to merge
                return
            give_way()


def _changes(cursor: Any) -> int:
    cursor.execute("SELECT total_changes()")
    return int(cursor.fetchone()[0])


def empty() -> None:
    """Delete all documents. The follower can create them again."""
    with transaction.atomic():
        TranscriptText.objects.all().delete()
        if connection.vendor == "sqlite":
            with connection.cursor() as cursor:
                cursor.execute("INSERT INTO episodes_transcriptwords (episodes_transcriptwords) VALUES ('delete-all')")


def _tsvector(document: SearchDocument) -> str:
    """Return the document as the text of a tsvector, with a lexeme for the block of the document."""
    return f"'B{document.subject // BLOCK_EPISODES}' {tsvector(document.words)}"


def tsvector(words: Sequence[str]) -> str:
    """Return words with their positions as the text of a tsvector."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, word in enumerate(words, 1):
        places[word].append(place)
    return " ".join([f"'{word}':{','.join(map(str, found[:_MAX_POSITIONS]))}" for word, found in places.items()])
