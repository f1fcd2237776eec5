"""The training and evaluation runs that clients have named."""

from __future__ import annotations

from typing import Any

from django.db.models import Exists, OuterRef, QuerySet
from django.http import Http404
from rest_framework.request import Request
from rest_framework.response import Response

from episodes.api.auth import Reader
from episodes.api.base import ApiView, limit_of, page, whole
from episodes.api.openapi import documented, parameter
from episodes.api.serializers import RunSerializer, page_serializer
from episodes.models import Episode, Run


class RunsView(ApiView):
    """All runs, newest first; for a key, those with an episode that was played with it."""

    parameters = ("name", "limit", "after")

    @documented(
        "runs",
        "runs",
        page_serializer(RunSerializer, "RunPage"),
        parameter("name", "Exact name of a run"),
        *("limit",),
        parameter("after", "Cursor of a page; take it from `next`"),
    )
    def get(self, request: Request) -> Response:
        limit, after, name = limit_of(request), whole(request, "after"), request.GET.get("name", "")
        rows = _runs_of(self.reader).order_by("-pk")
        rows = rows if after is None else rows.filter(pk__lt=after)
        rows = rows.filter(name=name.replace("\0", "")) if name else rows
        found = list(rows[: limit + 1])
        shape: Any = RunSerializer(found[:limit], many=True, context={"request": request})
        return Response(page(request, shape.data, found[limit - 1].pk if len(found) > limit else None))


class RunView(ApiView):
    """One run."""

    @documented("run", "runs", RunSerializer, is_one=True)
    def get(self, request: Request, pk: int) -> Response:
        run = _runs_of(self.reader).filter(pk=pk).first()
        if run is None:
            raise Http404(f"There is no run {pk}.")
        return Response(RunSerializer(run, context={"request": request}).data)


def _runs_of(reader: Reader) -> QuerySet[Run]:
    if reader.key_label is None:
        return Run.objects.all()
    return Run.objects.filter(Exists(Episode.objects.filter(run=OuterRef("pk"), key_label=reader.key_label)))
