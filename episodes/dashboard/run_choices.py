"""The runs that the menu of a chart offers: the chosen ones, others of their names, then the
newest.

Those whose name or model has the words that somebody types are searched among the newest.
"""

from __future__ import annotations

from functools import partial

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from environments.access.privacy import viewer_of
from environments.database.folding import holding
from environments.filtering.addresses import takes
from environments.filtering.parameters import given, words
from episodes.analytics.curve_query import run_ids
from episodes.models import Run

MAX_CHOICES = 50
"""Number of runs that are offered besides the chosen ones; a search finds the others."""
MAX_SEARCHED = 10_000
"""Number of the newest runs that are searched and counted."""


@require_safe
@never_cache
@takes("search", "runs")
def run_choices(request: HttpRequest) -> HttpResponse:
    """Return the list of runs to choose from. `runs`: the ids of the chosen ones. Raises:
    BadRequest."""
    viewer = viewer_of(request.user)
    search = given(request.GET, "search", words, "")
    ids = given(request.GET, "runs", partial(run_ids, viewer=viewer)) or ()
    visible = Run.objects.seen_by(viewer).only("name", "model", "state")
    rows = visible.in_bulk(list(ids))
    oldest = (
        Run.objects.order_by("-pk")
        .values_list("pk", flat=True)[MAX_SEARCHED - 1 : MAX_SEARCHED]
        .first()
    )
    found = visible.filter(pk__gte=oldest or 0)
    if search:
        found = found.filter(holding(found, search, ("name", "model")))
    namesakes = list(visible.namesakes(*(row.name for row in rows.values()))) if rows else []
    others = found.exclude(pk__in=[*rows, *(row.pk for row in namesakes)]).order_by("-pk")
    context = {
        "chosen": [rows[pk] for pk in ids if pk in rows],
        "namesakes": namesakes,
        "others": others[:MAX_CHOICES],
        "count": others.count(),
        "searched": MAX_SEARCHED
        if oldest is not None and Run.objects.filter(pk__lt=oldest).exists()
        else None,
        "search": search,
    }
    return render(request, "episodes/run_choices.html", context)
