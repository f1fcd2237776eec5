"""The API as an OpenAPI 3.1 document, generated from the views by drf-spectacular, and the page at
/api/ that shows it.

`documented` describes a view; parameters that several views share have one description here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from typing import Any, TypeVar

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer, OpenApiYamlRenderer
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from environments import conf
from environments.display.addresses import takes
from environments.scoring.convention import CONVENTION_PARTS
from environments.scoring.returns import RETURNS
from episodes.api.base import MAX_PAGE, PAGE, ApiView, one_of
from episodes.api.openapi_page import reference_of
from episodes.api.serializers import ErrorSerializer
from episodes.filtering.filters import ENDINGS, PARAMETERS, PLAYER_CHOICES

FORMATS = ("yaml", "json")


class DocumentView(ApiView):
    """The API as an OpenAPI 3.1 document; YAML unless `format=json`."""

    parameters = ("format",)
    authentication_classes = ()
    permission_classes = ()

    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponse:
        renderer: Any = (
            OpenApiJsonRenderer()
            if one_of(request, "format", FORMATS) == "json"
            else OpenApiYamlRenderer()
        )
        return HttpResponse(renderer.render(document(), None, {}), content_type=renderer.media_type)


@require_safe
@never_cache
@takes()
def reference(request: HttpRequest) -> HttpResponse:
    """Return the page that lists every address with its parameters and its response."""
    root = request.build_absolute_uri(reverse("overview")).rstrip("/")
    context = {"reference": reference_of(document()), "root": root, "prefix": conf.path_prefix()}
    return render(request, "episodes/api.html", context)


@cache
def document() -> dict[str, Any]:
    made: Any = SchemaGenerator
    found: dict[str, Any] = made(urlconf="episodes.api.urls").get_schema(request=None, public=True)
    if prefix := conf.path_prefix():
        found["servers"] = [{"url": prefix}]
    return found


def without_marks(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Remove the ids of enums from the document; a postprocessing hook of drf-spectacular."""
    _drop(result, "x-spec-enum-id")
    return result


def _drop(value: Any, name: str) -> None:
    if isinstance(value, dict):
        value.pop(name, None)
    for member in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        _drop(member, name)


F = TypeVar("F", bound=Callable[..., Any])

_TEXTS = {
    "environment": "Name of an environment",
    "split": "Name of one of its splits; needs `environment`",
    "task": "Number of a task",
    "suite": "Version of a suite, such as `core/v2`, or one of its members, such as `core/v2/1`: "
    "episodes of its tasks",
    "run": "Name of a run",
    "step": "Training step, such as `7`, or several, such as `7..9`",
    "model": "Name of a model",
    "revision": "Revision of the environment's code: eight or more digits of its `code`",
    "label": "A label and its value, or several, such as `seed=3,4;arm=b`",
    "ending": "`running`, a cause, `failure` (an infrastructure failure), `probe`, `continued` (a "
    "person's repeat, or"
    " from another episode), or `attempt` (what statistics count)",
    "player": "Kind of player",
    "who": "The person who played, such as `@alice`",
    "study": "Name of a study, whose people played",
    "return": "Definition of the return for `return_from`, `return_to` and sorting; "
    "default: that of the environment, else the sum",
    "no_call": "How agents' rollouts without a tool call count; default: as the environment "
    "declares, else `zero`",
    "expired": "How expired rollouts count; default: as the environment declares, else `keep`",
    "interrupted": "How interrupted rollouts count; default: as the environment declares, else "
    "`out`",
    "env_error": "How rollouts with a failed environment count; default: as the environment "
    "declares, else `out`",
    "return_from": "Minimum return",
    "return_to": "Maximum return",
    "steps_from": "Minimum number of steps",
    "steps_to": "Maximum number of steps",
    "error": "Whether a call was refused or failed",
    "since": "Started at this time or later: an ISO date or time, or a span before now such as "
    "`24h` or `7d`",
    "until": "Started before this time, in the same format as `since`",
    "text": 'Words, "words in a row" and prefix* in the transcript; finds the newest 50,000 '
    "episodes",
    "ends_from": "Minimum `end_number`",
    "ends_to": "Maximum `end_number`",
    "ends": "Ranges of `end_number`, both ends included, such as `3..5,9`",
    "after": "Cursor of a page; take it from `next` or `previous`",
    "limit": f"Maximum number of results, up to {MAX_PAGE}; default {PAGE}",
    "sort": "`time`, `return`, `steps` or `duration`, with `-` the largest first; default `-time`",
}
_ENUMS: dict[str, Collection[str]] = {
    "ending": ENDINGS,
    "player": tuple(PLAYER_CHOICES),
    "return": RETURNS,
    "error": ("yes", "no"),
    **CONVENTION_PARTS,
}
_TYPES: dict[str, Any] = {
    **dict.fromkeys(
        ("task", "steps_from", "steps_to", "ends_from", "ends_to", "limit"), OpenApiTypes.INT
    ),
    **dict.fromkeys(("return_from", "return_to"), OpenApiTypes.DOUBLE),
}
FILTERS = tuple(PARAMETERS)


def parameter(
    name: str, text: str = "", *, enum: Collection[str] = (), kind: Any = None
) -> OpenApiParameter:
    return OpenApiParameter(
        name,
        kind or _TYPES.get(name, OpenApiTypes.STR),
        description=text or _TEXTS[name],
        enum=list(enum or _ENUMS.get(name, ())) or None,
    )


DEFINITION: tuple[str | OpenApiParameter, ...] = (
    parameter("return", "Definition of the return; default: that of the environment"),
    parameter(
        "threshold", "A return above it is a success; default: that of the environment", kind=float
    ),
    *CONVENTION_PARTS,
)
"""The parameters of `definition_in`."""


def documented(
    operation: str,
    tag: str,
    shape: Any,
    *parameters: str | OpenApiParameter,
    may_miss: bool = False,
) -> Callable[[F], F]:
    """Return a decorator that describes a `get`. `may_miss`: a 404 is possible, because the address
    names something."""
    described = [parameter(one) if isinstance(one, str) else one for one in parameters]
    errors: dict[int, Any] = dict.fromkeys((401, 403, 429, 503), ErrorSerializer)
    if described:
        errors[400] = ErrorSerializer
    if may_miss:
        errors[404] = ErrorSerializer
    success = shape if isinstance(shape, dict) else {200: shape}
    return extend_schema(
        operation_id=operation, tags=[tag], parameters=described, responses={**success, **errors}
    )
