"""Leaderboards: the results of models, runs or players at the tasks of an environment or of one of
its splits."""

from __future__ import annotations

from typing import cast, get_args

from rest_framework.request import Request
from rest_framework.response import Response

from environments.scoring.definition import DEFINITION_PARAMETERS, definition_of
from episodes.analytics.leaderboard import TASKS, leaderboard
from episodes.analytics.leaderboard_results import By
from episodes.analytics.revision_marks import pooled_in
from episodes.analytics.run_splits import TOGETHER, SplitChoice, are_together_in
from episodes.analytics.scopes import scope_of
from episodes.api.base import ApiView, one_of
from episodes.api.environments import environment_of, split_of
from episodes.api.openapi import DEFINITION, documented, parameter
from episodes.api.serializers_figures import LeaderboardSerializer, definition_content
from episodes.filtering.parameters import definition_in

BY: tuple[By, ...] = get_args(By)


class LeaderboardView(ApiView):
    """The leaderboard of an environment or of one of its splits, best mean return first. A key gets a 403."""

    parameters = (*SplitChoice.PARAMETERS, "by", "tasks", *DEFINITION_PARAMETERS)

    @documented(
        "leaderboard",
        "figures",
        LeaderboardSerializer,
        parameter(
            "split",
            "Name of one of its splits; default: all its tasks, but by run, if a run played "
            "several splits, the first "
            "that the newest such run played",
        ),
        parameter(
            "splits",
            "`together`: by run, all tasks though runs played several splits",
            enum=(TOGETHER,),
        ),
        parameter("by", "What a row stands for; default `model`", enum=BY),
        parameter(
            "tasks",
            "Which tasks count; `shared`: those that people and another row attempted",
            enum=TASKS,
        ),
        *DEFINITION,
        may_miss=True,
    )
    def get(self, request: Request, name: str) -> Response:
        self.reader.refuse_keys("Leaderboards")
        environment = environment_of(name, self.reader)
        by = cast(By, one_of(request, "by", BY, "model"))
        definition = definition_of(environment, definition_in(request.GET))
        split = split_of(environment, request.GET.get("split", ""))
        is_shared = one_of(request, "tasks", TASKS, "all") == "shared"
        together, viewer = are_together_in(request.GET), self.reader.viewer
        found = leaderboard(
            environment, viewer, split, by, definition, is_shared=is_shared, are_together=together
        )
        content = {
            "environment": name,
            "split": found.split.name if found.split else None,
            "by": by,
            "definition": definition_content(definition),
            "tasks": found.tasks,
            "is_bounded": found.is_bounded,
            "note": found.note,
            "pooled_revisions": pooled_in([scope_of(found.split or environment)]),
            "rows": found.rows,
        }
        return Response(LeaderboardSerializer(content).data)
