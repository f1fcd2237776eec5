"""Leaderboards: the results of models, runs or players at the tasks of an environment or of one of
its splits."""

from __future__ import annotations

from typing import get_args

from rest_framework.request import Request
from rest_framework.response import Response

from episodes.api.base import ApiView
from episodes.api.openapi import DEFINITION, documented, parameter
from episodes.figures.curves.revision_marks import pooled_in
from episodes.figures.environments.api import environment_of
from episodes.figures.leaderboard.leaderboard import TASKS, LeaderboardQuery
from episodes.figures.leaderboard.leaderboard_results import By
from episodes.figures.leaderboard.serializers import LeaderboardSerializer
from episodes.figures.run_splits import TOGETHER
from episodes.figures.scopes import scope_of
from episodes.figures.serializers import definition_content


class LeaderboardView(ApiView):
    """The leaderboard of an environment or of one of its splits, best mean return first. A key gets a 403."""

    parameters = LeaderboardQuery.PARAMETERS

    @documented(
        "leaderboard",
        "figures",
        LeaderboardSerializer,
        parameter(
            "split",
            "Name of one of its splits; default: the test split if it has attempts; by run, if a run "
            "played several splits, the first that the newest such run played; otherwise all",
        ),
        parameter(
            "splits",
            "`together`: the tasks of all splits",
            enum=(TOGETHER,),
        ),
        parameter("by", "What a row stands for; default `model`", enum=get_args(By)),
        parameter(
            "tasks",
            "Which tasks count; `shared`: those that people and another row attempted",
            enum=TASKS,
        ),
        *DEFINITION,
    )
    def get(self, request: Request, name: str) -> Response:
        self.reader.refuse_keys("Leaderboards")
        environment = environment_of(name, self.reader)
        board = LeaderboardQuery.parse(request.GET, environment, self.reader.viewer).result()
        content = {
            "environment": name,
            "split": board.split.name if board.split else None,
            "by": board.by,
            "definition": definition_content(board.definition),
            "tasks": board.tasks,
            "is_bounded": board.is_bounded,
            "note": board.note,
            "pooled_revisions": pooled_in([scope_of(board.split or environment)]),
            "rows": board.rows,
        }
        return Response(LeaderboardSerializer(content).data)
