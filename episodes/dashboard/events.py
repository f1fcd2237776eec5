"""Events: the stream that an open page follows, one a page. `static/orsweb/live.js` reads it.

django-eventstream answers; here stands what may be asked for. A stream ends with its page, or with the server, which
closes what stands under /events/ when it stops.
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
    """`?channel=` episodes or episode-ID; one of them."""
    channels = request.GET.getlist("channel")
    if len(channels) != 1 or not is_channel(channels[0]):
        named = ", ".join(channels) or "none"
        return _refused(f"channel={named[:200]} cannot be followed; give one of: episodes, episode-ID.")
    if unknown := set(request.GET) - PARAMETERS:
        return _refused(f"{sorted(unknown)[0][:200]} is not known here; give channel=episodes or channel=episode-ID.")
    response: HttpResponseBase = event_stream(request, channels=channels)
    if not connection.in_atomic_block:
        connection.close()  # the thread stays as long as the stream and has no further use for it
    return response


def _refused(sentence: str) -> HttpResponse:
    return HttpResponse(sentence, status=400, content_type="text/plain; charset=utf-8")
