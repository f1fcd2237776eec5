"""The reward doctor: what its checks find in an environment, or in a split or run of it."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from environments.filtering.parameters import definition_in
from environments.scoring.convention import CONVENTION_PARTS
from environments.scoring.definition import DEFINITION_PARAMETERS, definition_of
from episodes.api.base import ApiView
from episodes.api.openapi import documented, parameter
from episodes.doctor.report import examine
from episodes.doctor.scope import DoctorScope
from episodes.doctor.serializers import DoctorSerializer
from episodes.doctor.thresholds import THRESHOLDS
from episodes.figures.environments.api import environment_of
from episodes.figures.serializers import definition_content


class DoctorView(ApiView):
    """What the reward doctor finds in an environment, or in a split or run of it. A key gets a 403."""

    parameters = ("split", "run", *THRESHOLDS, *DEFINITION_PARAMETERS)

    @documented(
        "doctor",
        "figures",
        DoctorSerializer,
        parameter("split", "Name of one of its splits; default: all its episodes"),
        parameter("run", "Name of a run; default: all its episodes"),
        parameter("return", "Definition of the return; default: that of the environment"),
        parameter(
            "threshold",
            "A return above it is a success; default: that of the environment",
            kind=float,
        ),
        *(
            parameter(name, f"Threshold: {threshold.words}", kind=float)
            for name, threshold in THRESHOLDS.items()
        ),
        *CONVENTION_PARTS,
    )
    def get(self, request: Request, name: str) -> Response:
        self.reader.refuse_keys("Reports of the doctor")
        environment = environment_of(name, self.reader)
        definition = definition_of(environment, definition_in(request.GET))
        scope = DoctorScope.of(environment, request.GET, definition, self.reader.viewer)
        report = examine(scope)
        content = {
            "environment": name,
            "split": scope.split.name if scope.split else None,
            "run": scope.run.name if scope.run else None,
            "definition": definition_content(definition),
            "summary": report.sentence,
            "attempts": len(scope.attempts),
            "is_bounded": scope.is_bounded,
            "findings": report.findings,
        }
        return Response(DoctorSerializer(content).data)
