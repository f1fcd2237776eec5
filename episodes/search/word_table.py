"""Stores the words of documents: a row for each part of a document, and its words under the id of
that row.

On SQLite the words are in a full-text table (FTS5) without a second copy of the text, on PostgreSQL
in a column `words` with a GIN index. Rows are never changed, so words that remain after their row
was deleted are never found.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection, models, transaction

from environments.database.json_rows import among
from environments.database.write_pauses import give_way
from episodes.search.documents import DocumentPart, SearchDocument

MAX_PARTS_AT_ONCE = 4
"""Number of later parts of a document that are written in one transaction, for about 30 ms."""
MERGED_PAGES = 500
"""Pages that one step of `merge` writes, for about 20 ms."""
MAX_MERGES = 100_000
BLOCK_SUBJECTS = 16_384
"""Number of subjects in a block, the unit of the function of PostgreSQL that searches the newest
blocks first."""
_APART = "\N{MIDDLE DOT}"
"""Stands between words in no order, so that they are no phrase. No word contains it."""
_MAX_POSITIONS = 255
"""Number of positions of one word in a tsvector. PostgreSQL drops the others and clips those beyond
16,383."""


@dataclass(frozen=True, slots=True)
class WordTable:
    """The words of all documents of one kind."""

    model: type[models.Model]
    """Its rows have the columns `part`, `is_cut` and `subject`."""
    subject: str
    """Name of the column with the id of what a document is about."""
    words: str
    """Name of SQLite's full-text table."""
    has_blocks: bool = False
    """Whether PostgreSQL stores a lexeme for the block of the subject."""

    def write(self, documents: Sequence[SearchDocument]) -> None:
        """Store the documents and replace those of the same subjects. Raises: django.db.Error."""
        with transaction.atomic():
            new = [document for document in documents if not document.has_later_parts_written]
            self.remove([document.subject for document in new])
            self._fill(
                [
                    (document, number, part)
                    for document in documents
                    for number, part in enumerate(document.parts())
                    if number == 0 or not document.has_later_parts_written
                ]
            )

    def write_later_parts(self, documents: Sequence[SearchDocument]) -> None:
        """Store all parts but the first of long documents, a few in a transaction, so that nobody
        waits long for them.

        `write` has to follow, in which the documents replace those of the same subjects. Raises:
        django.db.Error.
        """
        for document in documents:
            later = [
                (document, number, part) for number, part in enumerate(document.parts()) if number
            ]
            if later:
                self.remove([document.subject])
                document.has_later_parts_written = True
            for start in range(0, len(later), MAX_PARTS_AT_ONCE):
                self._fill(later[start : start + MAX_PARTS_AT_ONCE])
                give_way()

    def _fill(self, parts: Sequence[tuple[SearchDocument, int, DocumentPart]]) -> None:
        if not parts:
            return
        with transaction.atomic():
            if connection.vendor == "sqlite":
                self._fill_sqlite(parts)
            else:
                self._fill_postgresql(parts)

    def _fill_sqlite(self, parts: Sequence[tuple[SearchDocument, int, DocumentPart]]) -> None:
        sql = (
            f"INSERT INTO {self.model._meta.db_table} ({self.subject}, part, is_cut)"  # nosec B608 # only our own names
            " SELECT value->>0, value->>1, value->>2 FROM json_each(%s) RETURNING id, "
            f"{self.subject}, part"
        )
        words = {(document.subject, number): _indexed(part) for document, number, part in parts}
        rows = [(document.subject, number, document.is_cut) for document, number, _ in parts]
        with connection.cursor() as cursor:
            cursor.execute(sql, [json.dumps(rows)])
            values = sorted(
                (pk, words[subject, number]) for pk, subject, number in cursor.fetchall()
            )
            statement = f"INSERT INTO {self.words} (rowid, words) VALUES (%s, %s)"  # nosec B608 # only our own names
            cursor.executemany(statement, values)

    def _fill_postgresql(self, parts: Sequence[tuple[SearchDocument, int, DocumentPart]]) -> None:
        sql = (
            f"INSERT INTO {self.model._meta.db_table} ({self.subject}, part, is_cut, words)"  # nosec B608 # only our own names
            " SELECT subject, part, is_cut, CAST(words AS tsvector)"
            " FROM unnest(%s::bigint[], %s::smallint[], %s::boolean[], %s::text[]) AS d (subject, "
            "part, is_cut, words)"
        )
        rows = []
        for document, number, part in parts:
            words = _tsvector(part)
            if self.has_blocks:
                words = f"'B{document.subject // BLOCK_SUBJECTS}' {words}"
            rows.append((document.subject, number, document.is_cut, words))
        with connection.cursor() as cursor:
            cursor.execute(sql, [list(column) for column in zip(*rows, strict=True)])

    def remove(self, subjects: Collection[int]) -> None:
        """Delete the documents. On SQLite their words stay where nothing finds them, until
        `empty`."""
        self._rows(subjects).delete()

    def erase(self, documents: Sequence[SearchDocument]) -> None:
        """Delete the documents with their words, which have to be the same as when they were
        written."""
        rows = self._rows([document.subject for document in documents])
        words = {
            (document.subject, number): _indexed(part)
            for document in documents
            for number, part in enumerate(document.parts())
        }
        with transaction.atomic():
            # it keeps no text and so has to be told which words they are
            if connection.vendor == "sqlite":
                values = [
                    (pk, words[subject, part])
                    for pk, subject, part in rows.values_list("pk", self.subject, "part")
                    if (subject, part) in words
                ]
                with connection.cursor() as cursor:
                    cursor.executemany(
                        f"INSERT INTO {self.words} ({self.words}, rowid, words) VALUES ('delete', "
                        "%s, %s)",  # nosec B608 # only our own names
                        values,
                    )
            rows.delete()

    def _rows(self, subjects: Collection[int]) -> models.QuerySet[Any]:
        return self.model._default_manager.filter(among(self.subject, subjects))

    def empty(self) -> None:
        """Delete all documents with their words."""
        with transaction.atomic():
            self.model._default_manager.all().delete()
            if connection.vendor == "sqlite":
                with connection.cursor() as cursor:
                    cursor.execute(f"INSERT INTO {self.words} ({self.words}) VALUES ('delete-all')")  # nosec B608 # only our own names

    def merge(self) -> None:
        """Write SQLite's full-text table again in small portions, without the words that were
        erased."""
        with connection.cursor() as cursor:
            for number in range(MAX_MERGES):
                before = _changes(cursor)
                pages = -MERGED_PAGES if number == 0 else MERGED_PAGES
                statement = f"INSERT INTO {self.words} ({self.words}, rank) VALUES ('merge', %s)"  # nosec B608 # only our own names
                cursor.execute(statement, [pages])
                if _changes(cursor) - before < 2:  # SQLite's sign that nothing is left to merge
                    return
                give_way()


def _changes(cursor: Any) -> int:
    cursor.execute("SELECT total_changes()")
    return int(cursor.fetchone()[0])


def _indexed(part: DocumentPart) -> str:
    """Return the words of a part as SQLite's full-text table receives them."""
    return f" {_APART} ".join([part.text, *part.others])


def _tsvector(part: DocumentPart) -> str:
    """Return the words with their positions as the text of a tsvector; the others have none."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, word in enumerate(part.text.split(), 1):
        places[word].append(place)
    lexemes = [
        f"'{word}':{','.join(map(str, positions[:_MAX_POSITIONS]))}"
        for word, positions in places.items()
    ]
    return " ".join([*lexemes, *(f"'{word}'" for word in part.others)])
