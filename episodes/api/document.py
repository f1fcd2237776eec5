"""Document: the API as OpenAPI 3.1, made from its views by drf-spectacular, and the page at /api/ that shows it."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer, OpenApiYamlRenderer
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from episodes.api.base import ApiView, one_of
from episodes.api.reference import reference_of

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
