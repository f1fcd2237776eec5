"""The page that lists who played what, how long and with which return."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from environments.access.privacy import viewer_of
from environments.filtering.addresses import takes
from episodes.filtering.names import MAX_EPISODES_OF_PEOPLE
from episodes.people.people_figures import people_of
from episodes.people.player_identity import for_accounts


@require_safe
@never_cache
@for_accounts
@takes()
def people(request: HttpRequest) -> HttpResponse:
    return render(
        request,
        "people/people.html",
        {"found": people_of(viewer_of(request.user)), "most": MAX_EPISODES_OF_PEOPLE},
    )
