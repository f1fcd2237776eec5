"""The part that indexes transcripts for search. `episodes/search/index.py` stores the index."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence

from django.db import Error, transaction

from episodes.attempts.endings import Ending
from episodes.models import TranscriptText
from episodes.search import index
from episodes.search.documents import SearchDocument, documents_of

FIRST_ENDINGS = 20
MAX_ENDINGS = 200
BATCH_SECONDS = 0.25
"""CPU time of the documents of one batch, by that of the batch before it."""


class TextPart:
    name = "text"
    most_endings = FIRST_ENDINGS
    most_steps = 1000

    def __init__(self) -> None:
        # episodes of which parts may have been written, and `write` has not been committed
        self._begun = list[int]()

    def gather(self, endings: Sequence[Ending]) -> list[SearchDocument]:
        """Return the documents. Their later parts are written already, so that the transaction is
        short."""
        began = time.thread_time()
        self._begun = [ending.episode for ending in endings]
        documents = documents_of(self._begun)
        index.write_later_parts(documents)
        spent = time.thread_time() - began
        self.most_endings = min(
            MAX_ENDINGS, 1 + int(len(endings) * BATCH_SECONDS / max(spent, 0.001))
        )
        return documents

    def write(self, documents: list[SearchDocument]) -> None:
        index.write(documents)
        transaction.on_commit(self._begun.clear)

    def forget(self) -> None:
        """Delete what was started, as its episodes may have been removed. What another process has
        indexed stays."""
        with contextlib.suppress(Error):  # then the next to index these episodes replaces it
            episodes = set(
                TranscriptText.objects.filter(episode_id__in=self._begun, part=0).values_list(
                    "episode_id", flat=True
                )
            )
            index.remove([episode for episode in self._begun if episode not in episodes])
        self._begun = []

    def remove(self, endings: Sequence[Ending]) -> None:
        index.remove([ending.episode for ending in endings])

    def empty(self) -> bool:
        """Delete all rows at once, which takes no longer than deleting some."""
        index.empty()
        return False
