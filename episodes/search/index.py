"""The full-text index of transcripts. The follower fills it as episodes end; filters of episodes
search it.

The document of each episode (`documents.py`) has a row of TranscriptText for each of its parts,
stored as `word_table.py` says. Plain words are found together wherever they are in a transcript. A
phrase is found in one part, and on SQLite only with words of the same part.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from django.db import connection
from django.db.models import Q, QuerySet
from django.db.models.expressions import RawSQL

from episodes.models import TranscriptText
from episodes.search.documents import documents_of
from episodes.search.word_table import WordTable
from episodes.search.words import Term, terms_of

MAX_MATCHES = 50_000
"""Number of matches of one search, the newest ones. Words that nearly every transcript contains do
not filter."""
MAX_LOOKED_AT = 20_000
"""Number of documents that PostgreSQL reads to check that the words of a phrase follow each other:
the newest with all words. The index does not store the order. Reading so many takes 0.2 to 0.7 s,
depending on their length."""
TABLE = WordTable(TranscriptText, "episode_id", "episodes_transcriptwords", has_blocks=True)


# --- searching ------------------------------------------------------------------------------------


def matching(text: str, most: int | None = MAX_MATCHES) -> QuerySet[TranscriptText, int]:
    """Return the ids of up to `most` episodes whose transcripts contain all terms of `text`, newest
    first.

    Terms are words, "words in a row" and prefix*. Any text is allowed; one without a letter or
    digit matches nothing. None for `most` returns all matches, however long that takes.
    """
    rows = TranscriptText.objects.order_by("-episode_id")
    if not (terms := terms_of(text)):
        rows = rows.none()
    elif connection.vendor == "sqlite":
        rows = rows.filter(pk__in=_in_sqlite(terms, most))
    else:
        rows = rows.filter(episode_id__in=_in_postgresql(terms, most))
    return rows.values_list("episode_id", flat=True).distinct()


def transcript_contains(text: str, most: int | None = MAX_MATCHES) -> Q:
    """Return the condition that an episode is one of those that `matching` returns."""
    terms = terms_of(text)
    # without the table between, which takes as long as the search
    if terms and connection.vendor == "postgresql":
        return Q(pk__in=_in_postgresql(terms, most))
    return Q(pk__in=matching(text, most))


def newest_searched(text: str) -> int | None:
    """Return the number of transcripts to which a search for `text` is limited; None if no more
    contain its words.

    PostgreSQL looks for a phrase only in the newest of the transcripts with all of its words.
    """
    terms = terms_of(text)
    if not terms:
        return None
    most = MAX_MATCHES
    if connection.vendor == "sqlite":
        matches = _in_sqlite(terms, most)
    else:
        if any(len(term.words) > 1 for term in terms):
            most = MAX_LOOKED_AT
            terms = [Term((word,)) for term in terms for word in term.words]
        matches = _in_postgresql(terms, most)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT COUNT(*) FROM ({matches.sql}) AS matches", matches.params)  # nosec B608 # only our own names
        return most if cursor.fetchone()[0] >= most else None


def _in_sqlite(terms: Sequence[Term], most: int | None) -> RawSQL:
    table, limit = "episodes_transcriptwords", -1 if most is None else most
    sql = f"SELECT rowid FROM {table} WHERE {table} MATCH %s ORDER BY rowid DESC LIMIT %s"  # nosec B608 # only our own names
    return RawSQL(sql, [fts_query(terms), limit])  # nosec B611 # the values are parameters


def fts_query(terms: Sequence[Term]) -> str:
    """Return the query of SQLite's full-text search for all terms."""
    return " ".join(f'"{" ".join(term.words)}"{"*" if term.is_prefix else ""}' for term in terms)


def tsquery(terms: Sequence[Term]) -> str:
    """Return the query of PostgreSQL's full-text search for all terms, with the words of a phrase
    in a row."""
    return " & ".join(f"({' <-> '.join(_lexemes(term))})" for term in terms)


def _in_postgresql(terms: Sequence[Term], most: int | None) -> RawSQL:
    words = " & ".join(lexeme for term in terms for lexeme in _lexemes(term))
    phrases = tsquery([term for term in terms if len(term.words) > 1])
    looked_at = None if most is None else MAX_LOOKED_AT
    sql = (
        "SELECT episodes_transcripts_with("
        "CAST(%s AS tsquery), CAST(%s AS tsquery), CAST(%s AS integer), CAST(%s AS integer),"
        " (SELECT MAX(episode_id) FROM episodes_transcripttext))"
    )
    return RawSQL(sql, [words, phrases or None, most, looked_at])  # nosec B611 # the values are parameters


def _lexemes(term: Term) -> list[str]:
    """Return the lexemes of a term. Words consist of letters and digits, so nothing has to be
    escaped."""
    *words, last = (f"'{word}'" for word in term.words)
    return [*words, f"{last}:*" if term.is_prefix else last]


# --- filling --------------------------------------------------------------------------------------


write = TABLE.write
write_later_parts = TABLE.write_later_parts
remove = TABLE.remove
merge = TABLE.merge
empty = TABLE.empty


def index(episodes: Collection[int]) -> None:
    """Add the ended `episodes` to the index, or replace them there, within the transaction of the
    caller."""
    write(documents_of(episodes))


def erase(episodes: Collection[int]) -> None:
    """Delete the documents of `episodes` with their words. Call it before what they contain is
    changed."""
    rows = TranscriptText.objects.filter(episode_id__in=episodes, part=0)
    TABLE.erase(documents_of(list(rows.values_list("episode_id", flat=True))))
