"""Events: one episode as a stream of server-sent events, its steps as they are recorded and then its end.

    event: step    id: its index   data: the step as at /steps
    event: ended   id: end         data: the episode as at /episodes/ID

A client that comes back with Last-Event-ID goes on after that; one that has heard the end is answered 204, which tells
an EventSource to stay away. An ended episode streams all its steps and closes.

A stream waits for what `live.py` announces after each commit, and looks by itself now and then. It holds no thread: two
of them read for all streams, and the one on which Django took the request is let go.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import cache
from typing import Any

from asgiref.sync import SyncToAsync
from django.db import connection
from django.http import HttpResponse, StreamingHttpResponse
from django_eventstream.utils import add_default_headers, sse_encode_event
from django_eventstream.views import Listener, get_listener_manager
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from environments.database.worker_threads import Workers
from episodes.api.base import ApiView
from episodes.api.episodes import episode_of
from episodes.api.exact_json import exact_json
from episodes.api.openapi import documented
from episodes.api.serializers import EpisodeDetailSerializer, StepSerializer
from episodes.api.steps import steps_after
from episodes.filtering.parameters import BadFilter
from episodes.models import Episode
from episodes.recording.live import channel_of

STEPS_AT_ONCE = 100
READERS = 2
LOOK_SECONDS = 10.0
"""Between two looks that nobody asked for; each sends a comment, so that proxies keep the stream open."""
END = "end"
"""Id of the last event."""

_LAST = OpenApiParameter(
    "Last-Event-ID", OpenApiTypes.STR, OpenApiParameter.HEADER, description="Id of the last event that was received"
)


class EventsView(ApiView):
    """One episode as server-sent events: `step` for each step as it is recorded, then `ended`."""

    @documented("events", "episodes", {(200, "text/event-stream"): OpenApiTypes.STR}, _LAST, is_one=True)
    def get(self, request: Request, pk: int) -> Any:
        episode_of(pk, self.reader)
        last = _last_of(request.META.get("HTTP_LAST_EVENT_ID", "").strip())
        if last is None:
            return HttpResponse(status=204)
        if not connection.in_atomic_block:
            connection.close()  # the thread has no further use for it
        response = StreamingHttpResponse(
            _stream(pk, last, request.build_absolute_uri("/")), content_type="text/event-stream"
        )
        add_default_headers(response, request=request)
        return response


def _last_of(text: str) -> int | None:
    """Index of the last step that was received, -1 before the first; None after the end. Raises: BadFilter."""
    if text == END:
        return None
    if not text:
        return -1
    if not (text.isdecimal() and text.isascii() and len(text) < 10):
        raise BadFilter("Last-Event-ID", text, f"it has to be the id of an event: the index of a step, or {END!r}")
    return int(text)


async def _stream(episode: int, last: int, root: str) -> AsyncIterator[str]:
    _let_thread_go()
    async with _Following(episode) as following:
        yield ": this is an episode\n\n"
        while True:
            text, last, is_over = await _readers().run(_read, episode, last, root)
            if text:
                yield text
            if is_over:
                return
            if not text and not await following.news(LOOK_SECONDS):
                yield ": still here\n\n"


def _read(episode: int, last: int, root: str) -> tuple[str, int, bool]:
    """Events after step `last`, the index of the last step among them, and whether there will be no more."""
    row = Episode.objects.filter(pk=episode).values_list("status", flat=True).first()
    steps, has_more = steps_after(episode, last, STEPS_AT_ONCE)  # after the status: an ended episode has them all
    events = [sse_encode_event("step", exact_json(StepSerializer(step).data), step.index) for step in steps]
    last = steps[-1].index if steps else last
    if has_more or row == "running":
        return "".join(events), last, False
    if row is not None:  # else it was deleted meanwhile
        events.append(sse_encode_event("ended", exact_json(_told(episode, root)), END))
    return "".join(events), last, True


def _told(episode: int, root: str) -> Any:
    related = ("environment", "split", "task", "run", "prompt", "tools")
    row = Episode.objects.select_related(*related).get(pk=episode)
    return EpisodeDetailSerializer(row, context={"request": _Root(root)}).data


class _Root:
    """Stands for the request, which is over: addresses begin where it came in."""

    def __init__(self, root: str) -> None:
        self._root = root.rstrip("/")

    def build_absolute_uri(self, path: str) -> str:
        return self._root + path


class _Following:
    """Hears, while it is entered, when something of the episode was committed."""

    def __init__(self, episode: int) -> None:
        self._listener: Any = Listener()
        self._listener.channels = {channel_of(episode)}

    async def __aenter__(self) -> _Following:
        self._listener.assign_loop()
        get_listener_manager().add_listener(self._listener)
        return self

    async def __aexit__(self, *_: object) -> None:
        get_listener_manager().remove_listener(self._listener)

    async def news(self, seconds: float) -> bool:
        """Whether there was some within `seconds`, or since the last time this was asked."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._listener.aevent.wait(), seconds)
        heard = bool(self._listener.aevent.is_set())
        self._listener.aevent.clear()
        self._listener.channel_items = {}
        return heard


@cache
def _readers() -> Workers:
    """Of all streams. They end with the process."""
    return Workers(READERS, "episode-events")


def _let_thread_go() -> None:
    """End the thread that Django keeps for this request: until the stream is over nothing else runs on it.

    asgiref would keep it until then, one for each stream; another is made when Django closes the response.
    """
    context: Any = SyncToAsync.thread_sensitive_context.get(None)
    executor = SyncToAsync.context_to_thread_executor.pop(context, None) if context is not None else None
    if executor is not None:
        executor.shutdown(wait=False)
