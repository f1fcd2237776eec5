"""Additions: what people added to recorded episodes, as plain data: how they were played, and notes. For `jsonl` alone.

Accounts and guests are their database's own and not told; who played is the episode's `key_label`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cached_property
from typing import NamedTuple

from episodes.models import Note, Play


class PlayFacts(NamedTuple):
    is_blind: bool
    differs_at: int | None
    parent_step: int | None
    parent: int | None
    """Id of the episode that it continues; its session and beginning tell it apart in another database."""
    parent_session: str | None
    parent_created: datetime | None


class NoteFacts(NamedTuple):
    step: int | None
    """Index; None: of the whole episode."""
    author: str
    text: str
    created: datetime


_PLAY_COLUMNS = (
    *("is_blind", "differs_at", "parent_step", "parent_id"),
    *("parent__session_id", "parent__created"),
)


class Additions:
    """To `episodes`, which are read together. Two queries when it is first asked, and one for each that has notes."""

    def __init__(self, episodes: Sequence[int]) -> None:
        self._episodes = episodes

    def play(self, episode: int) -> PlayFacts | None:
        """None: no person played it."""
        return self._plays.get(episode)

    def notes(self, episode: int) -> Sequence[NoteFacts]:
        """In the order in which they were written."""
        if episode not in self._noted:
            return ()
        rows = Note.objects.filter(episode=episode).order_by("pk").values_list(*NoteFacts._fields)
        return [NoteFacts._make(row) for row in rows]

    @cached_property
    def _plays(self) -> dict[int, PlayFacts]:
        rows = Play.objects.filter(episode__in=self._episodes).values_list("episode", *_PLAY_COLUMNS)
        return {episode: PlayFacts._make(row) for episode, *row in rows}

    @cached_property
    def _noted(self) -> frozenset[int]:
        return frozenset(Note.objects.filter(episode__in=self._episodes).values_list("episode", flat=True))
