"""The stream of events that an open page follows. `static/orsweb/live.js` reads one stream for each
page.

`recording/live.py` sends the events; this module checks the parameters, and whether the visitor may
still follow. A page tells at which position of the record it was rendered: if something was
recorded since, its stream begins with the event `catch-up`. A stream ends when its page is closed,
when its visitor may not follow it any longer, or when the server stops and closes all streams under
/events/.
"""

from __future__ import annotations

import contextlib
import functools
import json
import time
from collections.abc import AsyncIterator, Callable

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.base import SessionBase
from django.db import Error
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_GET
from django_eventstream.utils import add_default_headers, sse_encode_event

from environments.access.current_login import recently_logged_in
from environments.access.permissions import SEE_PAGES
from environments.access.privacy import viewer_of
from environments.display.visible import visible
from environments.errors import OverQuota
from environments.keys.open_streams import OpenStream, open_streams
from environments.runtime.call_table import RunningCall
from environments.service import service_or_none
from episodes.recording.listening import Listening, stream_readers
from episodes.recording.live import position
from episodes.recording.news import EPISODES, channel_for, is_channel
from episodes.visibility import sees_episode

PARAMETERS = {"channel", "lastEventId", "position"}
CHECK_SECONDS = 3.0
"""Time after which a stream checks again whether its visitor may follow it. While nothing happens
it then sends an event, so that proxies keep it open."""
OPENED = f":{' ' * 2048}\n\nevent: stream-open\ndata:\n\n"
"""Browsers show nothing of a stream before they have received some bytes."""
CATCH_UP = 'event: catch-up\ndata: {"ids": []}\n\n'
STILL_OPEN = "event: keep-alive\ndata:\n\n"


class PositionMiddleware:
    """Notes the position of the record on each request, before its page reads anything."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request.position = position()  # type: ignore[attr-defined]  # read by base.html
        return self.get_response(request)


@require_GET
def events(request: HttpRequest) -> HttpResponseBase:
    """Return the stream of the parameter `channel`, which is `episodes` or `episode-ID`.

    `position` is that of the page; if it is empty, the page has missed events.
    """
    channels = request.GET.getlist("channel")
    if len(channels) != 1 or not is_channel(channels[0]):
        names = ", ".join(channels) or "none"
        return _refused(
            f"channel={names[:200]} cannot be followed; give one of: episodes, episode-ID."
        )
    if unknown := set(request.GET) - PARAMETERS:
        return _refused(
            f"{sorted(unknown)[0][:200]} is not a parameter of this page; give channel=episodes or "
            "channel=episode-ID."
        )
    [channel] = channels
    if channel == EPISODES:
        channel = channel_for(viewer_of(request.user))
    elif not sees_episode(request.user, pk := int(channel.rpartition("-")[2])):
        return _refused(f"There is no episode {pk}.", status=404)
    try:
        place = open_streams.enter(
            f"@{request.user.get_username()}", request.META.get("REMOTE_ADDR", "")
        )
    except OverQuota as error:
        page = _refused(f"{error}.", status=429)
        page["Retry-After"] = str(error.retry_seconds)
        return page
    may_follow = functools.partial(_may_follow, request.session, channel)
    response = StreamingHttpResponse(
        _stream(channel, request.GET.get("position"), may_follow, place),
        content_type="text/event-stream",
    )
    add_default_headers(response, request=request)
    return response


async def _stream(
    channel: str, page_position: str | None, may_follow: Callable[[], bool], place: OpenStream
) -> AsyncIterator[str]:
    with place:
        async with Listening(channel) as listening:
            # compared while listening, so what happens after that is an event
            is_behind = page_position not in (None, position())
            yield OPENED + CATCH_UP * is_behind
            checked_at, calls = time.monotonic(), list[RunningCall]()
            while True:
                if (now := _running_calls(channel)) != calls:
                    calls = now
                    yield sse_encode_event("calls", _calls_json(calls))
                news = await listening.news(CHECK_SECONDS)
                if time.monotonic() - checked_at >= CHECK_SECONDS:
                    checked_at = time.monotonic()
                    # the database is away, and tells nothing either
                    with contextlib.suppress(Error):
                        if not await stream_readers().run(may_follow):
                            return
                yield (
                    "".join(sse_encode_event(event.type, event.data) for event in news)
                    or STILL_OPEN
                )


def _running_calls(channel: str) -> list[RunningCall]:
    """Return the calls that run at this server of the episode that is followed."""
    service = service_or_none()
    if service is None or not is_channel(channel) or channel == EPISODES:
        return []
    return service.running_calls(int(channel.rpartition("-")[2]))


def _calls_json(calls: list[RunningCall]) -> str:
    now = time.monotonic()
    rows = [
        {"tool": visible(call.tool), "seconds": round(now - call.arrived_at, 1)} for call in calls
    ]
    return json.dumps({"calls": rows})


def _may_follow(session: SessionBase, channel: str) -> bool:
    """Return whether the visitor may follow the channel now. Without a login it is the local
    operator's."""
    if SESSION_KEY not in session:
        return True
    person = recently_logged_in(session)
    if not person.has_perm(SEE_PAGES):
        return False
    if is_channel(channel) and channel != EPISODES:
        return sees_episode(person, int(channel.rpartition("-")[2]))
    return channel == channel_for(viewer_of(person))


def _refused(sentence: str, status: int = 400) -> HttpResponse:
    return HttpResponse(sentence, status=status, content_type="text/plain; charset=utf-8")
