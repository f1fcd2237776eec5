"""The environments that this server hosts or has hosted, with their splits."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.http import Http404
from rest_framework.request import Request
from rest_framework.response import Response

from environments.access.privacy import visible
from environments.models import Environment, Split
from environments.tasks.unknown_environment import unknown_environment
from episodes.api.auth import Reader
from episodes.api.base import ApiView
from episodes.api.openapi import documented
from episodes.api.serializers import EnvironmentSerializer
from episodes.filtering.parameters import BadFilter


class EnvironmentsView(ApiView):
    """All environments, in the order of hosting; for a key, those that it may use."""

    scopes = ()

    @documented("environments", "environments", EnvironmentSerializer(many=True))
    def get(self, request: Request) -> Response:
        rows: Any = _environments_of(self.reader)
        shape: Any = EnvironmentSerializer(rows, many=True, context={"request": request})
        return Response(shape.data)


class EnvironmentView(ApiView):
    """One environment."""

    scopes = ()

    @documented("environment", "environments", EnvironmentSerializer, may_miss=True)
    def get(self, request: Request, name: str) -> Response:
        return Response(EnvironmentSerializer(environment_of(name, self.reader), context={"request": request}).data)


def _environments_of(reader: Reader) -> QuerySet[Environment]:
    rows = Environment.objects.filter(visible(reader.hidden, "pk")).defer("card", "task_schema")
    allowed = reader.key.environments
    return (rows if allowed is None else rows.filter(name__in=allowed)).prefetch_related("splits")


def environment_of(name: str, reader: Reader) -> Environment:
    """Return the environment `name` with its splits.

    Raises: Http404, also if it is hidden from the reader; Forbidden for a key that is made for others.
    """
    reader.key.check_environment(name)
    found = _environments_of(reader).filter(name=name).first() if "\0" not in name else None
    if found is None:
        raise Http404(unknown_environment(name, reader.hidden, reader.key.environments))
    return found


def split_of(environment: Environment, name: str) -> Split | None:
    """Return the split `name` of the environment; None for an empty name. Raises: BadFilter."""
    splits = {split.name: split for split in environment.splits.all()}
    if name and name not in splits:
        raise BadFilter("split", name, f"{environment.name} has {', '.join(splits) or 'no splits'}")
    return splits[name] if name else None
