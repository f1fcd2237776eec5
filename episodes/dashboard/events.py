"""The stream of events that an open page follows. `static/orsweb/live.js` reads one stream for each page.

django-eventstream sends the events; this module checks the parameters. A stream ends when its page is closed, or when
the server stops and closes all streams under /events/.
"""

from __future__ import annotations

from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_GET
from django_eventstream.views import events as event_stream

from episodes.recording.live import is_channel

PARAMETERS = {"channel", "lastEventId"}


@require_GET
def events(request: HttpRequest) -> HttpResponseBase:
    """Return the stream of the parameter `channel`, which is `episodes` or `episode-ID`."""
    channels = request.GET.getlist("channel")
    if len(channels) != 1 or not is_channel(channels[0]):
        named = ", ".join(channels) or "none"
        return _refused(f"channel={named[:200]} cannot be followed; give one of: episodes, episode-ID.")
    if unknown := set(request.GET) - PARAMETERS:
        return _refused(
            f"{sorted(unknown)[0][:200]} is not a parameter of this page; give channel=episodes or channel=episode-ID."
        )
    response: HttpResponseBase = event_stream(request, channels=channels)
    if not connection.in_atomic_block:
        connection.close()  # the thread lives as long as the stream and needs none
    return response


def _refused(sentence: str) -> HttpResponse:
    return HttpResponse(sentence, status=400, content_type="text/plain; charset=utf-8")
