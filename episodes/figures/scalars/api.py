"""The scalars of a run: reporting a batch of them, and reading their curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers as s
from rest_framework.request import Request
from rest_framework.response import Response

from environments.filtering.parameters import BadFilter, any_text, given, real, whole_from
from episodes.api.base import ApiView
from episodes.api.openapi import documented, parameter
from episodes.api.serializers import AttributesSerializer, ErrorSerializer, LinkField
from episodes.figures.runs.api import check_may_describe, check_run, json_of
from episodes.figures.runs.serializers import ScalarsField
from episodes.models import ScalarSeries
from episodes.runs.description import parsed_batch, run_name
from episodes.runs.scalar_curves import MAX_POINTS, ScalarCurve, scalar_curves
from episodes.runs.trainer_updates import run_by_name, steer

MAX_CURVES = 50
"""Scalars whose curves one response has."""
MOST_POINTS = 2000


@dataclass(frozen=True, slots=True)
class RunScalars:
    pk: int
    """Of the run."""
    name: str
    scalars: Sequence[ScalarCurve]


class ScalarPointSerializer(AttributesSerializer):
    step = s.IntegerField(source="start", help_text="First training step of the point")
    step_to = s.IntegerField(
        source="end", help_text="Last training step; a point of many steps averages them"
    )
    n = s.IntegerField(source="numbers", help_text="Steps whose value is a number")
    gaps = s.IntegerField(help_text="Steps whose value is NaN or an infinity")
    mean = s.FloatField(allow_null=True, help_text="Null if no value is a number")
    low = s.FloatField(allow_null=True)
    high = s.FloatField(allow_null=True)

    def to_representation(self, instance: Any) -> dict[str, Any]:
        if not instance.numbers:
            instance = instance._replace(low=None, mean=None, high=None)
        return super().to_representation(instance)


class ScalarSerializer(s.Serializer[Any]):
    name = s.CharField(source="series.name")
    count = s.IntegerField(source="series.points", help_text="Steps with a value")
    gaps = s.IntegerField(
        source="series.gaps", help_text="Those of them whose value is NaN or an infinity"
    )
    last_step = s.IntegerField(source="series.last_step")
    last = s.FloatField(
        source="series.last", allow_null=True, help_text="Value at `last_step`; null if not finite"
    )
    points = ScalarPointSerializer(
        many=True, help_text="In the order of steps; empty unless the request names the scalar"
    )


class RunScalarsSerializer(s.Serializer[Any]):
    run = s.IntegerField(source="pk", help_text="Id of the run")
    name = s.CharField(help_text="Name of the run")
    html_url = LinkField("/runs/{}/")
    scalars = ScalarSerializer(many=True, help_text="By name")


class StepScalarsSerializer(s.Serializer[Any]):
    step = s.IntegerField(help_text="Training step")
    scalars = ScalarsField()


class ScalarBatchSerializer(s.Serializer[Any]):
    run = s.CharField(help_text="Name of the run, as of `PUT /api/runs/by-name/{name}`")
    points = StepScalarsSerializer(many=True)


class ScalarsReceivedSerializer(s.Serializer[Any]):
    run = s.IntegerField(help_text="Id of the run")
    values = s.IntegerField(help_text="Number of values that were stored")


class ScalarsView(ApiView):
    """Numbers that the trainer of a run reported by training step, such as its loss."""

    http_method_names = ["get", "head", "post"]

    @property
    def parameters(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("run", "name", "from", "to", "points") if self.request.method != "POST" else ()

    @documented(
        "scalars",
        "runs",
        RunScalarsSerializer,
        parameter("run", "Name of the run, or title of several: the newest"),
        parameter(
            "name",
            "Name of a scalar whose points to return; repeat it for several, up to "
            f"{MAX_CURVES}. Without it, all scalars are listed, without points",
        ),
        parameter("from", "Smallest training step to return", kind=float),
        parameter("to", "Largest training step to return", kind=float),
        parameter(
            "points",
            f"Maximum number of points of a scalar, up to {MOST_POINTS:,}; default {MAX_POINTS}. "
            "If there are more, a point is several neighbouring steps",
            kind=int,
        ),
    )
    def get(self, request: Request) -> Response:
        run = run_by_name(given(request.GET, "run", any_text) or "", self.reader.viewer)
        names = list(dict.fromkeys(request.GET.getlist("name")))
        if len(names) > MAX_CURVES:
            raise BadFilter("name", len(names), f"a response has at most {MAX_CURVES} scalars")
        rows = ScalarSeries.objects.filter(run=run).order_by("name")
        curves = [ScalarCurve(row, ()) for row in rows]
        if names:
            size = given(request.GET, "points", whole_from(1, MOST_POINTS), MAX_POINTS)
            ends = [given(request.GET, name, real, None) for name in ("from", "to")]
            curves = scalar_curves(list(rows.filter(name__in=names)), size, *ends)
        result = RunScalars(run.pk, run.name, curves)
        return Response(RunScalarsSerializer(result, context=self.context).data)

    @extend_schema(
        operation_id="report_scalars",
        tags=["runs"],
        description="Store numbers of a run by training step. The values of a step and name that "
        "come again replace the first. A run that does not exist begins. Who may is as for "
        "`PUT /api/runs/by-name/{name}`, and the step of the run stays as it is.",
        request={"application/json": ScalarBatchSerializer},
        responses={
            200: ScalarsReceivedSerializer,
            **dict.fromkeys((400, 401, 403, 404, 413, 415, 429, 503), ErrorSerializer),
        },
    )
    def post(self, request: Request) -> Response:
        check_may_describe(self.reader)
        name, points = parsed_batch(json_of(request, self.reader))
        name = run_name(name)
        check_run(name, self.reader)
        run = steer(name, {}, self.reader.viewer, (), points).run
        count = sum(len(scalars) for _, scalars in points)
        return Response({"run": run.pk, "values": count})
