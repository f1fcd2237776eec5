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

from environments.access.privacy import hidden_from
from episodes.recording.news import EPISODES, channel_without, is_channel
from episodes.visibility import sees_episode

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
    if channels == [EPISODES]:
        channels = [channel_without(hidden_from(request.user))]
    elif not sees_episode(request.user, pk := int(channels[0].rpartition("-")[2])):
        return _refused(f"There is no episode {pk}.", status=404)
    response: HttpResponseBase = event_stream(request, channels=channels)
    if not connection.in_atomic_block:
        connection.close()  # the thread lives as long as the stream and needs none
    return response


def _refused(sentence: str, status: int = 400) -> HttpResponse:
    return HttpResponse(sentence, status=status, content_type="text/plain; charset=utf-8")
