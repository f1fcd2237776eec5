"""One episode as a stream of server-sent events: its steps as they are recorded, and then its end.

    event: step    id: its index   data: the step as in /steps
    event: ended   id: end         data: the episode as in /episodes/ID

A client that reconnects with Last-Event-ID continues after that event. One that has received the
end gets a 204, which stops an EventSource from reconnecting. The stream of an ended episode sends
all its steps and closes.

A stream waits for what `live.py` announces after each commit, and polls every POLL_SECONDS. It
occupies no thread: two threads read for all streams, once for all streams of a reader that wait for
the same step. It ends when its reader may no longer read the episode.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from django.contrib.auth import SESSION_KEY
from django.db import Error
from django.http import HttpResponse, StreamingHttpResponse
from django_eventstream.utils import add_default_headers, sse_encode_event
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from environments.access.current_login import recently_logged_in
from environments.access.permissions import SEE_PAGES
from environments.database.storable import index_in
from environments.filtering.parameters import BadFilter
from environments.keys.agent_key import ADMIN, READ
from environments.keys.keyring import ring
from environments.keys.open_streams import OpenStream, open_streams
from environments.runtime.switch_interval import restore_switch_interval, shorten_switch_interval
from episodes.api.auth import Reader
from episodes.api.base import ApiView
from episodes.api.episodes import episode_of, with_members
from episodes.api.exact_json import exact_json
from episodes.api.openapi import documented
from episodes.api.serializers import EpisodeDetailSerializer, StepSerializer
from episodes.api.steps import steps_after
from episodes.models import Episode
from episodes.recording.listening import Listening, stream_readers, turns_of
from episodes.recording.live import announcement
from episodes.recording.news import channel_of
from episodes.visibility import key_of_person, sees_episode

MAX_STEPS_PER_READ = 20
POLL_SECONDS = 10.0
"""Time between two reads without an announcement; each sends a comment, so that proxies keep the
stream open."""
CHECK_SECONDS = 3.0
"""Time after which a stream checks again whether its reader may still read anything."""
SHARED_SECONDS = 1.0
"""Time for which what was read for one stream is sent to others, unless something is announced."""
END = "end"
"""Id of the event `ended`, the last one."""

_LAST = OpenApiParameter(
    "Last-Event-ID",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="Id of the last event that was received",
)


class EventsView(ApiView):
    """One episode as server-sent events: `step` for each step as it is recorded, then `ended`."""

    @documented("events", "episodes", {(200, "text/event-stream"): OpenApiTypes.STR}, _LAST)
    def get(self, request: Request, pk: int) -> Any:
        episode = episode_of(pk, self.reader)
        last = _last_of(request.META.get("HTTP_LAST_EVENT_ID", "").strip())
        if last is None:
            return HttpResponse(status=204)
        place = open_streams.enter(self.reader.owner, request.META.get("REMOTE_ADDR", ""))
        stream = _stream(pk, last, _EventReading(request, self.reader, episode), place)
        response = StreamingHttpResponse(stream, content_type="text/event-stream")
        add_default_headers(response, request=request)
        return response


def _last_of(text: str) -> int | None:
    """Return the index of the last step received, -1 if none; None if the end was. Raises:
    BadFilter."""
    if text == END:
        return None
    if not text:
        return -1
    if (index := index_in(text)) is None:
        reason = f"it has to be the id of an event: the index of a step, or {END!r}"
        raise BadFilter("Last-Event-ID", text, reason)
    return index


async def _stream(
    episode: int, last: int, reading: _EventReading, place: OpenStream
) -> AsyncIterator[str]:
    with place:
        async with Listening(channel_of(episode)) as listening:
            yield ": this is an episode\n\n"
            while True:
                part = await _shared_read(episode, last, reading)
                last = part.last
                if part.text:
                    yield part.text
                if part.is_last:
                    return
                if not part.has_more and not await _news(listening, reading):
                    yield ": still here\n\n"


async def _news(listening: Listening, reading: _EventReading) -> bool:
    """Wait up to POLL_SECONDS for a commit to the episode, or until nothing may be read; return
    whether it came."""
    end = time.monotonic() + POLL_SECONDS
    while (seconds := end - time.monotonic()) > 0:
        if await listening.news(min(seconds, CHECK_SECONDS)):
            return True
        with contextlib.suppress(Error):  # the database is away: check again later
            if await reading.is_over():
                return False
    return False


class _EventPart(NamedTuple):
    """Some events of a stream."""

    text: str
    last: int
    """Index of the last step in them and those before."""
    has_more: bool = False
    """Whether there are further events already."""
    is_last: bool = False


_reads: dict[tuple[Any, ...], asyncio.Future[_EventPart]] = {}


async def _shared_read(episode: int, last: int, reading: _EventReading) -> _EventPart:
    """Return what `_read` does, which begins after the latest announcement."""
    key = (episode, last, announcement(), *reading.identity)
    loop = asyncio.get_running_loop()
    if (read := _reads.get(key)) is None:
        shorten_switch_interval()  # to read many steps takes tens of milliseconds of Python
        read = _reads[key] = asyncio.ensure_future(
            stream_readers().run(_read, episode, last, reading)
        )
        read.add_done_callback(lambda _: restore_switch_interval())
        loop.call_later(SHARED_SECONDS, _reads.pop, key, None)
    return await turns_of(loop).turn_after(read)


def _read(episode: int, last: int, reading: _EventReading) -> _EventPart:
    """Return the events after step `last`."""
    reader = reading.reader_now()
    if reader is None:
        return _EventPart("", last, is_last=True)
    status = Episode.objects.filter(pk=episode).values_list("status", flat=True).first()
    # after the status: then an ended one is complete
    steps, has_more = steps_after(episode, last, MAX_STEPS_PER_READ)
    # To make a serializer takes four times as long as to use it.
    represent = StepSerializer().to_representation
    events = [sse_encode_event("step", exact_json(represent(step)), step.index) for step in steps]
    last = steps[-1].index if steps else last
    if has_more or status == "running":
        return _EventPart("".join(events), last, has_more=has_more)
    if status is not None:  # otherwise it was deleted in the meantime
        row = with_members(Episode.objects.all()).get(pk=episode)
        context = {"request": reading, "guard": reader.guard}
        content = EpisodeDetailSerializer(row, context=context).data
        events.append(sse_encode_event("ended", exact_json(content), END))
    return _EventPart("".join(events), last, is_last=True)


class _EventReading:
    """Replaces the finished request for serializers, which build absolute addresses with it, and
    knows its reader."""

    def __init__(self, request: Request, reader: Reader, episode: Episode) -> None:
        self._root = request.build_absolute_uri("/").rstrip("/")
        self._reader, self._episode = reader, episode
        self._session: Any = request.session
        self.identity = (self._root, reader.owner, self._session.session_key)
        """The same for all streams that may read the same."""

    def reader_now(self) -> Reader | None:
        """Return the reader with what they may do now; None if they may not read the episode any
        longer."""
        reader = self._reader  # stays as it is for the local operator
        if reader.person is None:
            key, scope = ring.current(reader.key), READ if reader.key_label is not None else ADMIN
            if key is None or not key.may(scope):
                return None
            reader = Reader(key=key)
        elif SESSION_KEY in self._session:
            person: Any = recently_logged_in(self._session)
            may_read = person.has_perm(SEE_PAGES) and sees_episode(person, self._episode.pk)
            return Reader(person, key_of_person(person)) if may_read else None
        return reader if reader.viewer.sees_environment(self._episode.environment_id) else None

    async def is_over(self) -> bool:
        """Return whether the reader may not read the episode any longer. Raises:
        django.db.Error."""
        if self._reader.person is None:  # makes no query
            return self.reader_now() is None
        return await stream_readers().run(self.reader_now) is None

    def build_absolute_uri(self, path: str) -> str:
        return self._root + path
