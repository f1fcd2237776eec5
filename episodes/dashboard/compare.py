"""Compare: episodes side by side (`?episodes=`) or runs on the tasks they share (`?runs=`)."""

from __future__ import annotations

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from episodes.dashboard.compare_runs import compare_runs
from episodes.words import BadFilter


@require_safe
@never_cache
def compare(request: HttpRequest) -> HttpResponse:
    try:
        return compare_runs(request)
    except BadFilter as error:
        raise BadRequest(str(error)) from error
