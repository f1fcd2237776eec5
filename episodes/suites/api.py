"""Suites with their versions, and the leaderboard of a version."""

from __future__ import annotations

from typing import cast

from django.db.models import Prefetch
from django.http import Http404
from rest_framework.request import Request
from rest_framework.response import Response

from environments.filtering.parameters import chosen, given, whole_from
from episodes.api.base import ApiView
from episodes.api.openapi import documented, parameter
from episodes.models import Suite, SuiteVersion
from episodes.suites.results import BY, Players
from episodes.suites.serializers import SuiteSerializer, SuiteStandingsSerializer
from episodes.suites.standings import standings
from episodes.suites.versions import version_named


class SuitesView(ApiView):
    """All suites with their versions. A key gets a 403."""

    @documented("suites", "figures", SuiteSerializer(many=True))
    def get(self, request: Request) -> Response:
        self.reader.refuse_keys("Suites")
        latest_first = Prefetch("versions", SuiteVersion.objects.order_by("-number"))
        rows = Suite.objects.seen_by(self.reader.viewer).prefetch_related(latest_first)
        return Response(SuiteSerializer(rows, many=True, context=self.context).data)


class SuiteView(ApiView):
    """A version of a suite with its leaderboard. A key gets a 403."""

    parameters = ("version", "by")

    @documented(
        "suite",
        "figures",
        SuiteStandingsSerializer,
        parameter("version", "Number of the version; default: the latest", kind=int),
        parameter("by", "What a row stands for; default `model`", enum=BY),
    )
    def get(self, request: Request, name: str) -> Response:
        self.reader.refuse_keys("Suites")
        by = cast(Players, given(request.GET, "by", chosen(BY), "model"))
        number = given(request.GET, "version", whole_from(1))
        version = version_named(name, number, self.reader.viewer)
        if isinstance(version, str):
            raise Http404(version)
        results = standings(version, self.reader.viewer, by)
        context = {**self.context, "sees_salt": self.guard.reads_all}
        return Response(SuiteStandingsSerializer(results, context=context).data)
