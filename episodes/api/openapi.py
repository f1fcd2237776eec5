"""Documented: what the OpenAPI document says of a view, in the words that views share.

Document: the API as OpenAPI 3.1, made from its views by drf-spectacular, and the page at /api/ that shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from typing import Any, TypeVar

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer, OpenApiYamlRenderer
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from environments.scoring.returns import RETURNS
from episodes.api.base import MAX_PAGE, PAGE, ApiView, one_of
from episodes.api.openapi_page import reference_of
from episodes.api.serializers import ErrorSerializer
from episodes.filtering.filters import ENDINGS, PARAMETERS, PLAYERS

FORMATS = ("yaml", "json")


class DocumentView(ApiView):
    """The API as an OpenAPI 3.1 document; YAML unless `format=json`."""

    parameters = ("format",)
    authentication_classes = ()
    permission_classes = ()

    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponse:
        renderer: Any = OpenApiJsonRenderer() if one_of(request, "format", FORMATS) == "json" else OpenApiYamlRenderer()
        return HttpResponse(renderer.render(document(), None, {}), content_type=renderer.media_type)


@require_safe
@never_cache
def reference(request: HttpRequest) -> HttpResponse:
    """Every address with its parameters and its answer, for people."""
    root = request.build_absolute_uri("/").rstrip("/")
    return render(request, "episodes/api.html", {"reference": reference_of(document()), "root": root})


@cache
def document() -> dict[str, Any]:
    made: Any = SchemaGenerator
    found: dict[str, Any] = made(urlconf="episodes.api.urls").get_schema(request=None, public=True)
    return found


def without_marks(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """drf-spectacular's hook: enums stand where they are meant, so what tells them apart is of no use."""
    _drop(result, "x-spec-enum-id")
    return result


def _drop(value: Any, name: str) -> None:
    if isinstance(value, dict):
        value.pop(name, None)
    for member in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _drop(member, name)


F = TypeVar("F", bound=Callable[..., Any])

_TEXTS = {
    "environment": "Name of an environment",
    "split": "Name of one of its splits; needs `environment`",
    "task": "Number of a task",
    "run": "Name of a run",
    "step": "Training step, such as `7`, or several, such as `7..9`",
    "model": "Name of a model",
    "ending": "`running`, a cause, `probe`, `continued` (from another), or `attempt`: what statistics count",
    "player": "What kind of player played",
    "who": "The person who played, such as `@alice`",
    "return": "Definition of the return that `return_from`, `return_to` and sorting go by; "
    "left out: the environment's, else the sum",
    "return_from": "Least return",
    "return_to": "Highest return",
    "steps_from": "Fewest steps",
    "steps_to": "Most steps",
    "error": "Whether a call was refused or failed",
    "since": "Started then or later: an ISO date or time, or a span before now such as `24h` or `7d`",
    "until": "Started before then, in the forms of `since`",
    "text": 'Words, "words in a row" and begin* of the transcript; finds the newest 50,000',
    "ends_from": "Least `end_number`",
    "ends_to": "Highest `end_number`",
    "after": "Cursor of a page; take it from `next` or `previous`",
    "limit": f"Most results, up to {MAX_PAGE}; {PAGE} when left out",
    "sort": "`time`, `return`, `steps` or `duration`, with `-` the largest first; left out: `-time`",
}
_ENUMS: dict[str, Collection[str]] = {
    "ending": ENDINGS,
    "player": PLAYERS,
    "return": RETURNS,
    "error": ("yes", "no"),
}
_TYPES: dict[str, Any] = {
    **dict.fromkeys(("task", "steps_from", "steps_to", "ends_from", "ends_to", "limit"), OpenApiTypes.INT),
    **dict.fromkeys(("return_from", "return_to"), OpenApiTypes.DOUBLE),
}
FILTERS = tuple(PARAMETERS)


def parameter(name: str, text: str = "", *, enum: Collection[str] = (), kind: Any = None) -> OpenApiParameter:
    return OpenApiParameter(
        name,
        kind or _TYPES.get(name, OpenApiTypes.STR),
        description=text or _TEXTS[name],
        enum=list(enum or _ENUMS.get(name, ())) or None,
    )


def documented(
    operation: str, tag: str, shape: Any, *parameters: str | OpenApiParameter, is_one: bool = False
) -> Callable[[F], F]:
    """Decorates a `get`. `is_one`: it tells of one thing, which may not be there."""
    told = [parameter(one) if isinstance(one, str) else one for one in parameters]
    errors: dict[int, Any] = {401: ErrorSerializer}
    if told:
        errors[400] = ErrorSerializer
    if is_one:
        errors[404] = ErrorSerializer
    success = shape if isinstance(shape, dict) else {200: shape}
    return extend_schema(operation_id=operation, tags=[tag], parameters=told, responses={**success, **errors})
