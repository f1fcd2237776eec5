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
from episodes.api.auth import Reader
from episodes.api.base import ApiView
from episodes.api.openapi import DEFINITION, documented
from episodes.figures.environments.environment_figures import environment_figures
from episodes.figures.environments.serializers import EnvironmentResultsSerializer


class EnvironmentsView(ApiView):
    """All environments, in the order of hosting; for a key, those that it may use."""

    scopes = ()
    parameters = DEFINITION_PARAMETERS

    @documented(
        "environments", "environments", EnvironmentResultsSerializer(many=True), *DEFINITION
    )
    def get(self, request: Request) -> Response:
        rows = list(environments_of(self.reader))
        context = self.context | _figures_of(rows, request, self.reader)
        return Response(EnvironmentResultsSerializer(rows, many=True, context=context).data)


class EnvironmentView(ApiView):
    """One environment."""

    scopes = ()
    parameters = DEFINITION_PARAMETERS

    @documented("environment", "environments", EnvironmentResultsSerializer, *DEFINITION)
    def get(self, request: Request, name: str) -> Response:
        row = environment_of(name, self.reader)
        context = self.context | _figures_of([row], request, self.reader)
        return Response(EnvironmentResultsSerializer(row, context=context).data)


def _figures_of(rows: Sequence[Environment], request: Request, reader: Reader) -> dict[str, Any]:
    """Return what ResultsField needs. Raises: BadFilter."""
    figures = environment_figures(rows, reader.viewer, definition_in(request.GET))
    return {"figures": {line.environment.pk: line for line in figures}}


def environments_of(reader: Reader) -> QuerySet[Environment]:
    rows = Environment.objects.seen_by(reader.viewer).defer("card", "task_schema")
    if reader.key.environments is not None:
        rows = rows.filter(name__in=reader.key.environments)
    return rows.prefetch_related("splits")


def environment_of(name: str, reader: Reader) -> Environment:
    """Return the environment `name` with its splits.

    Raises: Http404, also if it is hidden from the reader; Forbidden for a key that is made for
    others.
    """
    reader.key.check_environment(name)
    environment = None
    if "\0" not in name:
        environment = environments_of(reader).filter(name=name).first()
    if environment is None:
        raise Http404(unknown_environment(name, reader.viewer, reader.key.environments))
    return environment
