"""The steps of an episode in order, with their inputs and outputs as exactly the JSON that was
recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import Http404
from rest_framework.request import Request
from rest_framework.response import Response

from episodes.api.base import ApiView, limit_of, page, whole
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
        *("limit",),
        parameter("after", "Index of a step", kind=int),
        may_miss=True,
    )
    def get(self, request: Request, pk: int) -> Response:
        limit, after = limit_of(request), whole(request, "after", -1)
        episode_of(pk, self.reader)
        steps, has_more = steps_after(pk, -1 if after is None else after, limit)
        shape: Any = StepSerializer(steps, many=True)
        return Response(page(request, shape.data, steps[-1].index if has_more else None))


class StepView(ApiView):
    """One step."""

    @documented("step", "episodes", StepSerializer, may_miss=True)
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
    rows = rows.select_related("input_blob", "output_blob").defer(
        "input_blob__data", "output_blob__data"
    )
    found = list(rows[: limit + 1])
    steps = found[: min(limit, _count_within_limit(found))]
    _fill_blobs(steps)
    return steps, len(found) > len(steps)


def _count_within_limit(steps: Sequence[Step]) -> int:
    """Return how many of the first steps fit within MAX_BLOB_BYTES; at least 1."""
    total = 0
    for place, step in enumerate(steps):
        total += sum(blob.size_bytes for blob in (step.input_blob, step.output_blob) if blob)
        if total > MAX_BLOB_BYTES:
            return max(1, place)
    return len(steps)


def _fill_blobs(steps: Sequence[Step]) -> None:
    blobs = [blob for step in steps for blob in (step.input_blob, step.output_blob) if blob]
    wanted = {blob.digest for blob in blobs}
    data = (
        dict(Blob.objects.filter(digest__in=wanted).values_list("digest", "data")) if wanted else {}
    )
    for blob in blobs:
        blob.data = data[blob.digest]
