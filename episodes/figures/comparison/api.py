"""JSON of the comparison of runs on the tasks that they share."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from environments.filtering.parameters import given, whole_from
from environments.scoring.definition import DEFINITION_PARAMETERS
from episodes.api.base import ApiView
from episodes.api.openapi import DEFINITION, documented, parameter
from episodes.figures.comparison.comparison_query import (
    MAX_FILE_TASKS,
    OWN,
    TASKS,
    comparison_of,
)
from episodes.figures.comparison.conclusions import conclusions_of
from episodes.figures.comparison.pages import MAX_TASKS
from episodes.figures.comparison.run_settings import settings_of
from episodes.figures.comparison.serializers import RunComparisonSerializer
from episodes.figures.curves.curve_parameters import AXES
from episodes.figures.run_splits import TOGETHER
from episodes.figures.serializers import definitions_content

SWITCHES = ("runs", "x", "from", "to", "splits", "threshold", "limit")


class CompareView(ApiView):
    """Runs on the tasks that they share, each task once: success, return, steps and reported tokens, first those by
    which a run is worse. If all have training steps, those that all have reached count. A key compares its own
    episodes.
    """

    parameters = (*SWITCHES, *OWN, "environment", "split", "revision", *DEFINITION_PARAMETERS)

    @documented(
        "compare_runs",
        "figures",
        RunComparisonSerializer,
        parameter(
            "runs",
            "Numbers or names of two runs or more with commas between them. Those that have no task "
            "in common with most of them are left out. Required",
        ),
        parameter(
            "baseline",
            "Number or name of the run with which the others are compared. Default: of two or three "
            "runs the first, of more the one that succeeds most often",
        ),
        parameter(
            "x",
            "`step`: of runs with training steps those that all have reached count; others: all",
            enum=AXES,
        ),
        parameter("from", "First training step", kind=float),
        parameter("to", "Last training step", kind=float),
        parameter("environment", "Environment of the split"),
        parameter("split", "One of several splits that the runs played; default: the first"),
        parameter("splits", "`together`: all splits that the runs played", enum=(TOGETHER,)),
        parameter("revision", "Code of the environment"),
        parameter(
            "tasks",
            "`worse`: only tasks at which the other runs are worse than the baseline",
            enum=TASKS,
        ),
        parameter("limit", f"Maximum number of tasks, up to {MAX_FILE_TASKS}; default {MAX_TASKS}"),
        *DEFINITION,
    )
    def get(self, request: Request) -> Response:
        viewer = self.reader.viewer
        parameters = request.GET.dict()
        most = given(parameters, "limit", whole_from(1, MAX_FILE_TASKS), MAX_TASKS)
        query, pairing = comparison_of(parameters, viewer, most, SWITCHES)
        environments = query.environments_of(pairing, viewer)
        content = {
            "runs": [
                {"id": run.pk, "name": run.name, "tasks": tasks, "rollouts": coverage}
                for run, tasks, coverage in zip(
                    query.runs, pairing.attempted, pairing.coverage, strict=True
                )
            ],
            "baseline": query.runs[pairing.baseline].name,
            "apart": [[run.name for run in runs] for runs in query.apart],
            "split": query.split,
            "definition": definitions_content(pairing.definition),
            "steps": query.episodes.steps,
            "note": query.episodes.note,
            "shared": pairing.shared,
            "conclusions": conclusions_of(pairing),
            "measures": pairing.measures,
            "tasks": [
                {
                    "task": pair.task,
                    "environment": environments[pair.task],
                    "attempts": pair.attempts,
                    "p": pair.p,
                    "measures": [figure for figure in pair.figures if figure.means],
                }
                for pair in pairing.tasks
                if pair.task in environments
            ],
            "settings": settings_of(query.runs),
        }
        return Response(RunComparisonSerializer(content).data)
