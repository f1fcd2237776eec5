"""What the palette of all pages (Ctrl K) finds by name, as JSON for its script."""

from __future__ import annotations

from dataclasses import asdict

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from environments.access.privacy import viewer_of
from environments.display.visible import visible
from environments.filtering.addresses import takes
from episodes.browsing.named_places import places_named


@require_safe
@never_cache
@takes("text")
def palette(request: HttpRequest) -> HttpResponse:
    """Return {"places": [{"kind", "name", "url"}]} for the name or a part of it in `text`."""
    places = places_named(request.GET.get("text", ""), viewer_of(request.user))
    return JsonResponse(
        {"places": [asdict(place) | {"name": visible(place.name)} for place in places]}
    )
