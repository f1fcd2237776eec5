"""What was recorded since the last announcement, and the events about it that followers of a
channel receive.

`live.py` describes channels and events.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Literal

from environments.models import Viewer
from environments.runtime.records import EpisodeEnded, EpisodeNoted, EpisodeStarted, Row, StepTaken
from episodes.models import Episode
from episodes.models.privacy import visible_episodes
from episodes.uploads.events import UploadChunk

EPISODES = "episodes"
WITHOUT = f"{EPISODES}-without-"
"""Start of the channels without open studies, without some sealed splits (`3s7`: the split 7 of the
environment 3), or without some environments, whose ids follow. Pages can't name them: the server
does.
"""
STUDIES = "studies"
MAX_IDS = 50
TEXT_ITEMS = 100
"""Items in one text for another server: less than 7,000 bytes."""
MAX_TEXTS = 50
"""Texts about one announcement; if more were needed, other servers learn only that there was
much."""
Kind = Literal["started", "noted", "steps", "ended", "messages", "catch-up"]
Item = Sequence[Any]
"""Kind, episode, highest index and number of its new steps."""
_CHANNEL = re.compile(r"episodes|episode-[1-9]\d{0,18}")
_SEALED = re.compile(r"\d+s\d+")
_KINDS: dict[type, Kind] = {EpisodeStarted: "started", EpisodeNoted: "noted", EpisodeEnded: "ended"}


def is_channel(name: str) -> bool:
    return _CHANNEL.fullmatch(name) is not None


def channel_for(viewer: Viewer) -> str:
    """Return the channel of all episodes that exist for the viewer."""
    studies = [] if viewer.sees_open_studies else [STUDIES]
    splits = [
        f"{environment}s{split}" for split, environment in sorted(viewer.sealed_splits.items())
    ]
    left_out = [*studies, *splits, *map(str, sorted(viewer.hidden_environments))]
    return WITHOUT + "-".join(left_out) if left_out else EPISODES


def _viewer_of(channel: str) -> Viewer:
    """Return the viewer for whom `channel_for` made the channel."""
    left_out = channel.removeprefix(WITHOUT).split("-")
    places = [part.split("s") for part in left_out if _SEALED.fullmatch(part)]
    return Viewer(
        frozenset(int(part) for part in left_out if part.isdecimal()),
        {int(split): int(environment) for environment, split in places},
        sees_open_studies=STUDIES not in left_out,
    )


def channel_of(episode: int) -> str:
    return f"episode-{episode}"


class News:
    """The episodes of each kind of event, in order."""

    __slots__ = ("_has_uploads", "_ids", "_last", "_steps", "is_incomplete")

    def __init__(self, *, is_incomplete: bool = False) -> None:
        """`is_incomplete`: more may have been recorded than what is added."""
        self.is_incomplete = is_incomplete
        self._ids: dict[Kind, dict[int, int | None]] = {
            "started": {},
            "noted": {},
            "steps": {},
            "ended": {},
        }
        self._last = self._ids["steps"]  # the value is the highest index of the new steps
        self._steps: dict[int, int] = {}  # number of new steps by episode
        self._has_uploads = False

    def __bool__(self) -> bool:
        return self.is_incomplete or self._has_uploads or any(self._ids.values())

    def add(self, rows: Iterable[Row | UploadChunk]) -> None:
        last = self._last
        for row in rows:
            if isinstance(row, UploadChunk):
                self._has_uploads = True
                continue
            episode = row.episode
            if isinstance(row, StepTaken):
                self._steps[episode] = self._steps.get(episode, 0) + 1
                last[episode] = max(row.index, last.get(episode) or 0)
            elif kind := _KINDS.get(type(row)):  # a snapshot is no news
                self._ids[kind][episode] = None

    # --- for other servers ------------------------------------------------------------------------

    def texts(self) -> list[str]:
        """Return the news as short texts, each of which `add_text` can read."""
        items = list(self._items())
        if len(items) > TEXT_ITEMS * MAX_TEXTS:
            items = list(News(is_incomplete=True)._items())
        parts = (items[start : start + TEXT_ITEMS] for start in range(0, len(items), TEXT_ITEMS))
        return [json.dumps(part, separators=(",", ":")) for part in parts]

    def add_text(self, text: str) -> None:
        self.add_items(json.loads(text))

    def add_news(self, news: News) -> None:
        self.add_items(news._items())

    def add_items(self, items: Iterable[Item]) -> None:
        for kind, episode, index, count in items:
            if kind == "steps":
                self._steps[episode] = self._steps.get(episode, 0) + count
                self._last[episode] = max(index, self._last.get(episode) or 0)
            elif kind in self._ids:
                self._ids[kind][episode] = None
            elif kind == "messages":
                self._has_uploads = True
            else:
                self.is_incomplete = True

    def _items(self) -> Iterator[Item]:
        for kind, ids in self._ids.items():
            for episode, index in ids.items():
                yield kind, episode, index, self._steps[episode] if kind == "steps" else 0
        if self._has_uploads:
            yield "messages", 0, None, 0
        if self.is_incomplete:
            yield "catch-up", 0, None, 0

    # --- for pages --------------------------------------------------------------------------------

    def events(self, channels: Iterable[str]) -> Iterator[tuple[str, Kind, dict[str, Any]]]:
        """Yield channel, type and data of each event for the followers of these channels, in
        order."""
        for channel in channels:
            if self.is_incomplete:
                yield channel, "catch-up", {"ids": []}
            elif channel == EPISODES:
                yield from self._of_all(channel)
            elif channel.startswith(WITHOUT):
                yield from self._for(_viewer_of(channel))._of_all(channel)
            elif is_channel(channel):
                yield from self._of_one(channel, int(channel.partition("-")[2]))

    def _for(self, viewer: Viewer) -> News:
        """Return the news about the episodes that exist for the viewer. Two queries at most."""
        if not (visible := visible_episodes(viewer)):
            return self
        ids = set[int]().union(*self._ids.values())
        visible_ids = set(Episode.objects.filter(visible, pk__in=ids).values_list("pk", flat=True))
        news = News()
        for kind, episodes in self._ids.items():
            news._ids[kind].update((pk, last) for pk, last in episodes.items() if pk in visible_ids)
        news._steps.update((pk, count) for pk, count in self._steps.items() if pk in visible_ids)
        return news

    def _of_all(self, channel: str) -> Iterator[tuple[str, Kind, dict[str, Any]]]:
        starts, ends = self._ids["started"], self._ids["ended"]
        counts = {"started": len(starts), "steps": sum(self._steps.values()), "ended": len(ends)}
        for kind, ids in self._ids.items():
            if ids and kind != "noted":
                yield (
                    channel,
                    kind,
                    {"ids": list(islice(reversed(ids), MAX_IDS))[::-1], "counts": counts},
                )

    def _of_one(self, channel: str, episode: int) -> Iterator[tuple[str, Kind, dict[str, Any]]]:
        for kind, ids in self._ids.items():
            if episode in ids:
                yield channel, kind, {"ids": [episode], "last": self._last.get(episode)}
        if self._has_uploads:
            yield channel, "messages", {"ids": []}
