"""One episode as a stream of server-sent events: its steps as they are recorded, and then its end.

    event: step    id: its index   data: the step as in /steps
    event: ended   id: end         data: the episode as in /episodes/ID

A client that reconnects with Last-Event-ID continues after that event. One that has received the end gets a 204, which
stops an EventSource from reconnecting. The stream of an ended episode sends all its steps and closes.

A stream waits for what `live.py` announces after each commit, and polls every POLL_SECONDS. It occupies no thread: two
threads read for all streams, and the thread on which Django received the request is released. It ends when its reader
may no longer read the episode.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from functools import cache
from typing import Any

from asgiref.sync import SyncToAsync
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.db import connection
from django.http import HttpResponse, StreamingHttpResponse
from django_eventstream.utils import add_default_headers, sse_encode_event
from django_eventstream.views import Listener, get_listener_manager
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from environments.access.logins import logged_in
from environments.access.permissions import SEE_PAGES
from environments.access.privacy import hidden_from
from environments.database.storable import index_in
from environments.database.worker_threads import Workers
from environments.keys.keyring import ring
from episodes.api.auth import Reader
from episodes.api.base import ApiView
from episodes.api.episodes import RELATED, episode_of
from episodes.api.exact_json import exact_json
from episodes.api.openapi import documented
from episodes.api.serializers import EpisodeDetailSerializer, StepSerializer
from episodes.api.steps import steps_after
from episodes.filtering.parameters import BadFilter
from episodes.models import Episode
from episodes.recording.news import channel_of

MAX_STEPS_PER_READ = 100
READERS = 2
POLL_SECONDS = 10.0
"""Time between two reads without an announcement; each sends a comment, so that proxies keep the stream open."""
REVOKED_SECONDS = 0.5
"""Interval at which a stream checks that its key is still in force."""
CHECK_SECONDS = 1.0
"""Time for which a stream's reads take a person for logged in and permitted without reading it again."""
END = "end"
"""Id of the event `ended`, the last one."""

_LAST = OpenApiParameter(
    "Last-Event-ID", OpenApiTypes.STR, OpenApiParameter.HEADER, description="Id of the last event that was received"
)


class EventsView(ApiView):
    """One episode as server-sent events: `step` for each step as it is recorded, then `ended`."""

    @documented("events", "episodes", {(200, "text/event-stream"): OpenApiTypes.STR}, _LAST, may_miss=True)
    def get(self, request: Request, pk: int) -> Any:
        episode_of(pk, self.reader)
        last = _last_of(request.META.get("HTTP_LAST_EVENT_ID", "").strip())
        if last is None:
            return HttpResponse(status=204)
        if not connection.in_atomic_block:
            connection.close()  # the thread needs no connection any more
        response = StreamingHttpResponse(
            _stream(pk, last, _EventReading(request, self.reader)),
            content_type="text/event-stream",
        )
        add_default_headers(response, request=request)
        return response


def _last_of(text: str) -> int | None:
    """Return the index of the last step received, -1 if none; None if the end was. Raises: BadFilter."""
    if text == END:
        return None
    if not text:
        return -1
    index = index_in(text)
    if index is None:
        raise BadFilter("Last-Event-ID", text, f"it has to be the id of an event: the index of a step, or {END!r}")
    return index


async def _stream(episode: int, last: int, reading: _EventReading) -> AsyncIterator[str]:
    _release_thread()
    async with _Listening(episode) as listening:
        yield ": this is an episode\n\n"
        while True:
            text, last, is_over = await _readers().run(_read, episode, last, reading)
            if text:
                yield text
            if is_over:
                return
            if not text and not await listening.wait(POLL_SECONDS, reading.is_over):
                yield ": still here\n\n"
            if reading.is_over():
                return


def _read(episode: int, last: int, reading: _EventReading) -> tuple[str, int, bool]:
    """Return the events after step `last`, the index of the last step in them, and whether the stream is complete."""
    row = Episode.objects.filter(pk=episode).values_list("status", "environment", "environment__is_private").first()
    status, environment, is_private = row or (None, None, False)
    if not reading.may_read(environment, is_private=bool(is_private)):
        return "", last, True
    steps, has_more = steps_after(episode, last, MAX_STEPS_PER_READ)  # after the status: then an ended one is complete
    events = [sse_encode_event("step", exact_json(StepSerializer(step).data), step.index) for step in steps]
    last = steps[-1].index if steps else last
    if has_more or status == "running":
        return "".join(events), last, False
    if status is not None:  # otherwise it was deleted in the meantime
        events.append(sse_encode_event("ended", exact_json(_content(episode, reading)), END))
    return "".join(events), last, True


def _content(episode: int, reading: _EventReading) -> Any:
    row = Episode.objects.select_related(*RELATED).get(pk=episode)
    return EpisodeDetailSerializer(row, context={"request": reading, "guard": reading.guard}).data


class _EventReading:
    """Replaces the finished request for serializers, which build absolute addresses with it, and knows its reader."""

    def __init__(self, request: Request, reader: Reader) -> None:
        self._root, self._reader, self.guard = request.build_absolute_uri("/").rstrip("/"), reader, reader.guard
        self._session: Any = request.session
        self._person, self._checked_at = reader.person, time.monotonic()

    def is_over(self) -> bool:
        """Return whether the key is no longer in force."""
        return self._reader.person is None and ring.current(self._reader.key) is None

    def may_read(self, environment: int | None, *, is_private: bool) -> bool:
        """Return whether the environment exists for the reader now. People have to be logged in, and permitted."""
        if self._reader.person is None:
            key = ring.current(self._reader.key)
            return not (is_private and key and environment in key.hidden_ids)
        person = self._person_now()
        return person.has_perm(SEE_PAGES) and not (is_private and environment in hidden_from(person))

    def _person_now(self) -> Any:
        """Return the account, which is read again every CHECK_SECONDS; without a login it is the local operator's."""
        if time.monotonic() - self._checked_at > CHECK_SECONDS:
            is_login = SESSION_KEY in self._session
            self._person = logged_in(self._session) if is_login else User.objects.get(pk=self._reader.person.pk)
            self._checked_at = time.monotonic()
        return self._person

    def build_absolute_uri(self, path: str) -> str:
        return self._root + path


class _Listening:
    """A context in which commits to the episode are noticed."""

    def __init__(self, episode: int) -> None:
        self._listener: Any = Listener()
        self._listener.channels = {channel_of(episode)}

    async def __aenter__(self) -> _Listening:
        self._listener.assign_loop()
        get_listener_manager().add_listener(self._listener)
        return self

    async def __aexit__(self, *_: object) -> None:
        get_listener_manager().remove_listener(self._listener)

    async def wait(self, seconds: float, is_over: Callable[[], bool]) -> bool:
        """Wait up to `seconds` for a commit, or until it is over; return whether there was one since the last call."""
        until = time.monotonic() + seconds
        while not is_over() and (left := until - time.monotonic()) > 0 and not self._listener.aevent.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._listener.aevent.wait(), min(left, REVOKED_SECONDS))
        is_announced = bool(self._listener.aevent.is_set())
        self._listener.aevent.clear()
        self._listener.channel_items = {}
        return is_announced


@cache
def _readers() -> Workers:
    """Return the threads that read for all streams. They end with the process."""
    return Workers(READERS, "episode-events")


def _release_thread() -> None:
    """End the thread that Django keeps for this request and does not use until the stream ends.

    asgiref would keep one thread for each stream until then; it creates another when Django closes the response.
    """
    context: Any = SyncToAsync.thread_sensitive_context.get(None)
    executor = SyncToAsync.context_to_thread_executor.pop(context, None) if context is not None else None
    if executor is not None:
        executor.shutdown(wait=False)
