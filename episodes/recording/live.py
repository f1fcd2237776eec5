"""Events that tell open pages what was recorded, sent by django-eventstream after the commit.

The recorder's writer drives them.

Channels and their events, whose data is a JSON object:

*episodes*     started, steps, ended          {"ids": [newest last, 50 at most],
                                              "counts": {"started": n, "steps": n, "ended": n}}
*episodes-without-ID-ID*                       the same about the episodes of all environments but these: what people
                                              follow from whom private environments are hidden
*episode-ID*   started, noted, steps, ended   {"ids": [ID], "last": highest index of its new steps or null}
               messages                       {"ids": []}: a client has uploaded messages of any episode

Events carry ids and no content: pages fetch what they show, so a stream that was full (it holds ten events) loses
nothing but a reason to fetch. While no page follows a channel, a batch costs the writer one check of an empty dict.
"""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Literal

import structlog
from django.db import connections
from django_eventstream import send_event
from django_eventstream.channelmanager import DefaultChannelManager
from django_eventstream.views import get_listener_manager

from environments.access.privacy import visible
from environments.runtime.records import EpisodeEnded, EpisodeNoted, EpisodeStarted, Row, StepTaken
from episodes.models import Episode
from episodes.uploads.events import UploadChunk

EPISODES = "episodes"
WITHOUT = f"{EPISODES}-without-"
"""Start of the channels without some environments, whose ids follow. Pages can't name them: the server does."""
PAUSE_SECONDS = 1.0
"""Time between two announcements, each of three events at most on a channel."""
MAX_IDS = 50
Kind = Literal["started", "noted", "steps", "ended", "messages"]
_CHANNEL = re.compile(r"episodes|episode-[1-9]\d{0,18}")
_KINDS: dict[type, Kind] = {EpisodeStarted: "started", EpisodeNoted: "noted", EpisodeEnded: "ended"}

log = structlog.get_logger(__name__)

_numbers = itertools.count(1)
_announcement = 0


def announcement() -> int:
    """Return a number that differs from an earlier one if something was announced, or happened without a listener."""
    return _announcement


def _count_announcement() -> None:
    global _announcement
    _announcement = next(_numbers)


def is_channel(name: str) -> bool:
    return _CHANNEL.fullmatch(name) is not None


def channel_without(hidden: frozenset[int]) -> str:
    """Return the channel of all episodes but those of the environments `hidden`."""
    return WITHOUT + "-".join(map(str, sorted(hidden))) if hidden else EPISODES


def channel_of(episode: int) -> str:
    return f"episode-{episode}"


class Channels(DefaultChannelManager):  # type: ignore[misc]  # it has no types
    """Channel manager of django-eventstream (see the settings): anyone who may see pages may follow their channels."""

    def can_read_channel(self, user: Any, channel: str) -> bool:
        is_known = is_channel(channel) or channel.startswith(WITHOUT)
        return user is not None and user.is_authenticated and is_known

    def is_channel_reliable(self, channel: str) -> bool:
        """Return False: no event is stored for listeners that come later."""
        return False


class News:
    """What was recorded since the last announcement: the episodes of each kind of event, in order."""

    __slots__ = ("_has_uploads", "_ids", "_last", "_steps")

    def __init__(self) -> None:
        self._ids: dict[Kind, dict[int, int | None]] = {"started": {}, "noted": {}, "steps": {}, "ended": {}}
        self._last = self._ids["steps"]  # the value is the highest index of the new steps
        self._steps: dict[int, int] = {}  # number of new steps by episode
        self._has_uploads = False

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
            else:
                self._ids[_KINDS[type(row)]][episode] = None

    def events(self, followed: Iterable[str]) -> Iterator[tuple[str, Kind, dict[str, Any]]]:
        """Yield channel, type and data of each event for the followers of these channels, in order."""
        for channel in followed:
            if channel == EPISODES:
                yield from self._of_all(channel)
            elif channel.startswith(WITHOUT):
                hidden = frozenset(map(int, channel.removeprefix(WITHOUT).split("-")))
                yield from self._without(hidden)._of_all(channel)
            elif is_channel(channel):
                yield from self._of_one(channel, int(channel.partition("-")[2]))

    def _without(self, hidden: frozenset[int]) -> News:
        """Return the news about the episodes of other environments than `hidden`. One query."""
        ids = set[int]().union(*self._ids.values())
        seen = set(Episode.objects.filter(visible(hidden), pk__in=ids).values_list("pk", flat=True))
        found = News()
        for kind, episodes in self._ids.items():
            found._ids[kind].update((pk, last) for pk, last in episodes.items() if pk in seen)
        found._steps.update((pk, count) for pk, count in self._steps.items() if pk in seen)
        return found

    def _of_all(self, channel: str) -> Iterator[tuple[str, Kind, dict[str, Any]]]:
        started, ended = self._ids["started"], self._ids["ended"]
        counts = {"started": len(started), "steps": sum(self._steps.values()), "ended": len(ended)}
        for kind, ids in self._ids.items():
            if ids and kind != "noted":
                yield channel, kind, {"ids": list(islice(reversed(ids), MAX_IDS))[::-1], "counts": counts}

    def _of_one(self, channel: str, episode: int) -> Iterator[tuple[str, Kind, dict[str, Any]]]:
        for kind, ids in self._ids.items():
            if episode in ids:
                yield channel, kind, {"ids": [episode], "last": self._last.get(episode)}
        if self._has_uploads:
            yield channel, "messages", {"ids": []}


class Live:
    """Announces what was recorded: `start` first, `stop` last.

    One thread calls `tell`; another, which this object starts, makes the announcements.
    """

    def __init__(self) -> None:
        self._listeners = get_listener_manager()
        self._lock = threading.Lock()  # guards _news
        self._news = News()
        self._has_news = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="live", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop without announcing what is left: streams end with the server."""
        self._stopped.set()
        self._has_news.set()

    def tell(self, calls: Iterable[Iterable[Row | UploadChunk]]) -> None:
        """Announce that these rows are durable. Costs next to nothing without listeners."""
        if not self._listeners.listeners_by_channel:
            _count_announcement()
            return
        with self._lock:
            for rows in calls:
                self._news.add(rows)
        self._has_news.set()

    def _run(self) -> None:
        """Announce the first news after a pause at once, and collect what follows until the next announcement."""
        while self._has_news.wait() and not self._stopped.is_set():
            self._has_news.clear()
            with self._lock:
                news, self._news = self._news, News()
            _count_announcement()
            try:
                self._announce(news)
            except Exception:  # a failed announcement must not stop the next ones; pages fetch again anyway
                log.exception("events_not_sent")
            self._stopped.wait(PAUSE_SECONDS)

    def _announce(self, news: News) -> None:
        with self._listeners.lock:
            followed = list(self._listeners.listeners_by_channel)
        try:
            for channel, kind, data in news.events(followed):
                send_event(channel, kind, data)
        finally:
            connections.close_all()  # channels without some environments ask for those of the episodes
