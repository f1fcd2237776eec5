"""Parents: joins imported plays with the episodes that they continue. Used by the importer.

A parent is known by its session and beginning, for here it may have another id; it may also stand later in the files.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from episodes.models import Episode, Play
from episodes.transfer.line import EpisodeLine

Key = tuple[str, datetime]
"""Session and beginning."""


class Parents:
    def __init__(self) -> None:
        self._waiting: dict[Key, Key] = {}  # play -> what it continues

    def expect(self, lines: Iterable[EpisodeLine]) -> None:
        """Also of episodes that were there: an import may have been cut short before its end."""
        for line in lines:
            if line.play and line.play.parent:
                parent = line.play.parent
                self._waiting[line.session_id, line.created] = parent.session_id, parent.created

    def join(self) -> None:
        """What is not here leaves its play without a parent. Raises: django.db.Error."""
        for play, parent in self._waiting.items():
            if (found := _find(parent)) is not None and (own := _find(play)) is not None:
                Play.objects.filter(episode=own, parent=None).update(parent=found)
        self._waiting.clear()


def _find(key: Key) -> int | None:
    session, created = key
    return Episode.objects.filter(session_id=session, created=created).values_list("pk", flat=True).first()
