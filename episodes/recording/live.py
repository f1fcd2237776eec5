"""Events that tell open pages what was recorded, sent by django-eventstream after the commit.

The recorder's writer drives them. Beside other servers of the database, each tells the others once
a second what it has recorded, so a page can follow at any of them.

Channels and their events, whose data is a JSON object:

*episodes*     started, steps, ended          {"ids": [newest last, 50 at most],
                                              "counts": {"started": n, "steps": n, "ended": n}}
*episodes-without-ID-ID*                       the same about the episodes of all environments but these: what people
                                              follow from whom private environments are hidden
*episode-ID*   started, noted, steps, ended   {"ids": [ID], "last": highest index of its new steps or null}
               messages                       {"ids": []}: a client has uploaded messages of any episode
all            catch-up                       {"ids": []}: anything may have happened on other servers

Events carry ids and no content: pages fetch what they show, so a stream that was full (it holds ten
events) loses nothing but a reason to fetch. While no page follows a channel, a batch costs the
writer of a server that has its database alone one check of an empty dict.
"""

from __future__ import annotations

import itertools
import secrets
import threading
from collections.abc import Iterable
from functools import cache

import structlog
from django.db import Error, connections
from django_eventstream import send_event
from django_eventstream.channelmanager import DefaultChannelManager
from django_eventstream.views import get_listener_manager

from environments.cluster.messages import ServerMessages
from environments.runtime.records import Row
from episodes.recording.news import News
from episodes.uploads.events import UploadChunk

PAUSE_SECONDS = 1.0
"""Time between two announcements, each of three events at most on a channel."""
TOPIC = "recorded"
"""Topic of the messages to other servers, whose texts are those of `News`."""

log = structlog.get_logger(__name__)

_numbers = itertools.count(1)
_announcement = 0


def announcement() -> int:
    """Return a number that differs from an earlier one if something was announced, or happened
    without a listener."""
    return _announcement


@cache
def _process() -> str:
    return secrets.token_hex(8)


def position() -> str:
    """Return a text that changes with the announcement, and from server to server.

    What is read after this was called contains all that was announced until then.
    """
    return f"{_process()}-{_announcement}"


def _count_announcement() -> None:
    global _announcement
    _announcement = next(_numbers)


class Channels(DefaultChannelManager):  # type: ignore[misc]  # it has no types
    """Channel manager of django-eventstream (see the settings)."""

    def is_channel_reliable(self, channel: str) -> bool:
        """Return False: no event is stored for listeners that come later."""
        return False


class Live:
    """Announces what was recorded: `start` first, `stop` last.

    One thread calls `tell`, that of the messages brings what other servers tell, and a third, which
    this object starts, makes the announcements.
    """

    def __init__(self) -> None:
        self._listeners = get_listener_manager()
        self._messages: ServerMessages | None = None
        self._lock = threading.Lock()  # guards _own and _others
        self._own, self._others = News(), News()
        self._has_news = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="live", daemon=True)

    def start(self, messages: ServerMessages | None = None) -> None:
        """`messages`: those to and from other servers of the database."""
        self._messages = messages
        if messages is not None:
            messages.listen(TOPIC, self._hear, self._miss)
        self._thread.start()

    def stop(self) -> None:
        """Stop without announcing what is left: streams end with the server."""
        self._stopped.set()
        self._has_news.set()

    def tell(self, calls: Iterable[Iterable[Row | UploadChunk]]) -> None:
        """Announce that these rows are durable. Costs next to nothing without listeners and other
        servers."""
        if not self._listeners.listeners_by_channel:
            _count_announcement()
            # a stream that began to listen before this was counted has taken the old position
            if self._messages is None and not self._listeners.listeners_by_channel:
                return
        with self._lock:
            for rows in calls:
                self._own.add(rows)
        self._has_news.set()

    def _hear(self, text: str) -> None:
        with self._lock:
            self._others.add_text(text)
        self._has_news.set()

    def _miss(self) -> None:
        with self._lock:
            self._others.is_incomplete = True
        self._has_news.set()

    def _run(self) -> None:
        """Announce the first news after a pause at once, and collect what follows until the next
        announcement."""
        while self._has_news.wait() and not self._stopped.is_set():
            self._has_news.clear()
            with self._lock:
                own, others = self._own, self._others
                self._own, self._others = News(), News()
            _count_announcement()
            try:
                if self._messages is not None:
                    self._tell_others(self._messages, own)
                    own.add_news(others)
                self._announce(own)
            except Exception:  # the next ones go on; pages fetch again anyway
                log.exception("events_not_sent")
                connections.close_all()
            self._stopped.wait(PAUSE_SECONDS)
        connections.close_all()

    def _tell_others(self, messages: ServerMessages, own: News) -> None:
        if not own:
            return
        try:
            messages.send(TOPIC, *own.texts())
        except Error:  # the database is away
            connections.close_all()
            with self._lock:
                self._own.is_incomplete = True
            self._has_news.set()

    def _announce(self, news: News) -> None:
        with self._listeners.lock:
            channels = list(self._listeners.listeners_by_channel)
        try:
            for channel, kind, data in news.events(channels):
                send_event(channel, kind, data)
        finally:
            if self._messages is None:
                # channels without some environments ask for those of the episodes
                connections.close_all()
