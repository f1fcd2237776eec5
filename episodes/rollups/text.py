"""The part that indexes transcripts for search. `episodes/search/index.py` stores the index."""

from __future__ import annotations

from collections.abc import Sequence

from episodes.attempts.endings import Ending
from episodes.search import index
from episodes.search.documents import SearchDocument, documents_of


class TextPart:
    name = "text"
    most_endings = 50
    most_steps = 500

    def gather(self, endings: Sequence[Ending]) -> list[SearchDocument]:
        return documents_of([ending.episode for ending in endings])

    def write(self, gathered: list[SearchDocument]) -> None:
        index.write(gathered)

    def forget(self) -> None:
        pass

    def remove(self, endings: Sequence[Ending]) -> None:
        index.remove([ending.episode for ending in endings])

    def empty(self) -> bool:
        """Delete all rows at once, which takes no longer than deleting some."""
        index.empty()
        return False
