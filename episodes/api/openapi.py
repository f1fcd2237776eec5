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
from environments.filtering.addresses import takes
from environments.filtering.filters import Parameter
from environments.filtering.parameters import chosen, given
from environments.scoring.convention import CONVENTION_PARTS
from episodes.api.base import MAX_PAGE, PAGE, ApiView
from episodes.api.openapi_page import reference_of
from episodes.api.serializers import ErrorSerializer
from episodes.filtering.filters import EpisodeFilter


class DocumentView(ApiView):
    """The API as an OpenAPI 3.1 document; YAML unless `format=json`."""

    parameters = ("format",)
    authentication_classes = ()
    permission_classes = ()

    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponse:
        is_json = given(request.GET, "format", chosen(("yaml", "json"))) == "json"
        renderer: Any = OpenApiJsonRenderer() if is_json else OpenApiYamlRenderer()
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
    generator: Any = SchemaGenerator(urlconf="episodes.urls.api")  # type: ignore[no-untyped-call]
    schema: dict[str, Any] = generator.get_schema(request=None, public=True)
    if prefix := conf.path_prefix():
        schema["servers"] = [{"url": prefix}]
    return schema


def without_marks(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Remove the ids of enums from the document; a postprocessing hook of drf-spectacular."""
    _drop(result, "x-spec-enum-id")
    return result


def _drop(value: Any, name: str) -> None:
    members = value if isinstance(value, list) else []
    if isinstance(value, dict):
        value.pop(name, None)
        members = list(value.values())
    for member in members:
        _drop(member, name)


F = TypeVar("F", bound=Callable[..., Any])

_TEXTS = {
    "after": "Cursor of a page; take it from `next` or `previous`",
    "limit": f"Maximum number of results, up to {MAX_PAGE}; default {PAGE}",
    "sort": "`time`, `return`, `steps` or `duration`, with `-` the largest first; default `-time`",
}
_KINDS: dict[type, Any] = {
    str: OpenApiTypes.STR,
    int: OpenApiTypes.INT,
    float: OpenApiTypes.DOUBLE,
}
FILTERS = tuple(EpisodeFilter.parameters())


def parameter(
    name: str, text: str = "", *, enum: Collection[str] = (), kind: Any = None
) -> OpenApiParameter:
    """Return a parameter of an address. Those of the filter of episodes are described there."""
    definition = None if name in _TEXTS else EpisodeFilter.parameters().get(name)
    if definition is not None:
        text, enum = text or definition.text, enum or definition.choices
        kind = kind or _KINDS[definition.kind]
    usual = OpenApiTypes.INT if name == "limit" else OpenApiTypes.STR
    return OpenApiParameter(
        name, kind or usual, description=text or _TEXTS[name], enum=list(enum) or None
    )


def described(definition: Parameter) -> OpenApiParameter:
    """Return the description of a parameter of a filter."""
    return parameter(
        definition.name, definition.text, enum=tuple(definition.choices), kind=definition.kind
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
) -> Callable[[F], F]:
    """Return a decorator that describes a `get`. Any address that names nothing, or has a NUL, gets
    404."""
    parts = [parameter(part) if isinstance(part, str) else part for part in parameters]
    errors: dict[int, Any] = dict.fromkeys((401, 403, 404, 429, 503), ErrorSerializer)
    if parts:
        errors[400] = ErrorSerializer
    success = shape if isinstance(shape, dict) else {200: shape}
    return extend_schema(
        operation_id=operation, tags=[tag], parameters=parts, responses={**success, **errors}
    )
