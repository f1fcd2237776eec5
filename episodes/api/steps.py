"""The steps of an episode in order, with their inputs and outputs as exactly the JSON that was
recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import Http404
from rest_framework.request import Request
from rest_framework.response import Response

from environments.filtering.parameters import count_in, given
from episodes.api.base import ApiView, fitting, limit_of, page
from episodes.api.episodes import episode_of
from episodes.api.openapi import documented, parameter
from episodes.api.serializers import StepSerializer, page_serializer
from episodes.models import Blob, Step

MAX_BLOB_BYTES = 16 * 1024 * 1024
"""Size of all blobs of a page. A page ends before the step that would exceed it, but has at least
one step."""


class StepsView(ApiView):
    """Steps of an episode. `after` is the index of a step; the page starts with the next one."""

    parameters = ("limit", "after")

    @documented(
        "steps",
        "episodes",
        page_serializer(StepSerializer, "StepPage"),
        "limit",
        parameter("after", "Index of a step", kind=int),
    )
    def get(self, request: Request, pk: int) -> Response:
        limit, after = limit_of(request), given(request.GET, "after", count_in, -1)
        episode_of(pk, self.reader)
        steps, has_more = steps_after(pk, after, limit)
        shape: Any = StepSerializer(steps, many=True)
        return Response(page(request, shape.data, steps[-1].index if has_more else None))


class StepView(ApiView):
    """One step."""

    @documented("step", "episodes", StepSerializer)
    def get(self, request: Request, pk: int, index: int) -> Response:
        episode_of(pk, self.reader)
        steps, _ = steps_after(pk, index - 1, 1)
        if not steps or steps[0].index != index:
            raise Http404(f"Episode {pk} has no step {index}.")
        return Response(StepSerializer(steps[0]).data)


def steps_after(episode: int, index: int, limit: int) -> tuple[Sequence[Step], bool]:
    """Return up to `limit` steps after `index` with their texts, and whether there are more. Two
    queries at most."""
    rows = Step.objects.filter(episode=episode, index__gt=index).order_by("index")
    rows = rows.select_related("input_blob", "output_blob")
    following = list(rows.defer("input_blob__data", "output_blob__data")[: limit + 1])
    steps = fitting(following, limit, _blob_bytes, MAX_BLOB_BYTES)
    blobs = [blob for step in steps for blob in _blobs_of(step)]
    if digests := {blob.digest for blob in blobs}:
        data = dict(Blob.objects.filter(digest__in=digests).values_list("digest", "data"))
        for blob in blobs:
            blob.data = data[blob.digest]
    return steps, len(following) > len(steps)


def _blobs_of(step: Step) -> list[Blob]:
    return [blob for blob in (step.input_blob, step.output_blob) if blob]


def _blob_bytes(step: Step) -> int:
    return sum(blob.size_bytes for blob in _blobs_of(step))
