"""TextPart: what transcripts say, so that it can be searched. `episodes/search.py` keeps it."""

from __future__ import annotations

from collections.abc import Sequence

from episodes import search
from episodes.documents import Document, documents_of
from episodes.endings import Ending


class TextPart:
    name = "text"
    most_endings = 50
    most_steps = 500

    def gather(self, endings: Sequence[Ending]) -> list[Document]:
        return documents_of([ending.episode for ending in endings])

    def write(self, gathered: list[Document]) -> None:
        search.write(gathered)

    def forget(self) -> None:
        pass

    def empty(self) -> bool:
        """All at once: it takes no longer than some of them."""
        search.empty()
        return False
