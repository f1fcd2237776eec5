"""The environments that this server hosts or has hosted, with their splits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet
from django.http import Http404
from rest_framework.request import Request
from rest_framework.response import Response

from environments.filtering.parameters import definition_in
from environments.models import Environment
from environments.scoring.definition import DEFINITION_PARAMETERS
from environments.tasks.unknown_environment import unknown_environment
from episodes.analytics.overview import environment_figures
from episodes.api.auth import Reader
from episodes.api.base import ApiView
from episodes.api.openapi import DEFINITION, documented
from episodes.api.serializers_figures import EnvironmentResultsSerializer, Results


class EnvironmentsView(ApiView):
    """All environments, in the order of hosting; for a key, those that it may use."""

    scopes = ()
    parameters = DEFINITION_PARAMETERS

    @documented(
        "environments", "environments", EnvironmentResultsSerializer(many=True), *DEFINITION
    )
    def get(self, request: Request) -> Response:
        rows = list(environments_of(self.reader))
        shape: Any = EnvironmentResultsSerializer(
            rows, many=True, context=_context(request, self.reader, rows)
        )
        return Response(shape.data)


class EnvironmentView(ApiView):
    """One environment."""

    scopes = ()
    parameters = DEFINITION_PARAMETERS

    @documented(
        "environment", "environments", EnvironmentResultsSerializer, *DEFINITION, may_miss=True
    )
    def get(self, request: Request, name: str) -> Response:
        row = environment_of(name, self.reader)
        return Response(
            EnvironmentResultsSerializer(row, context=_context(request, self.reader, [row])).data
        )


def _context(request: Request, reader: Reader, rows: Sequence[Environment]) -> dict[str, Any]:
    """Return what the serializer of environments with figures needs."""
    found = environment_figures(rows, reader.viewer, definition_in(request.GET))
    results = {
        one.environment.pk: Results(one.definition, one.outline.total, one.outline.missing)
        for one in found
    }
    return {"request": request, "results": results}


def environments_of(reader: Reader) -> QuerySet[Environment]:
    rows = Environment.objects.seen_by(reader.viewer).defer("card", "task_schema")
    allowed = reader.key.environments
    return (rows if allowed is None else rows.filter(name__in=allowed)).prefetch_related("splits")


def environment_of(name: str, reader: Reader) -> Environment:
    """Return the environment `name` with its splits.

    Raises: Http404, also if it is hidden from the reader; Forbidden for a key that is made for
    others.
    """
    reader.key.check_environment(name)
    found = environments_of(reader).filter(name=name).first() if "\0" not in name else None
    if found is None:
        raise Http404(unknown_environment(name, reader.viewer, reader.key.environments))
    return found
