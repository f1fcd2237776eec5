"""Leaderboards: the results of models, runs or players at the tasks of an environment or of one of its splits."""

from __future__ import annotations

from typing import cast, get_args

from rest_framework.request import Request
from rest_framework.response import Response

from environments.scoring.definition import definition_of
from environments.scoring.returns import RETURNS, Return
from episodes.analytics.leaderboard import By, leaderboard
from episodes.api.base import ApiView, one_of, real
from episodes.api.environments import environment_of, split_of
from episodes.api.openapi import documented, parameter
from episodes.api.serializers_figures import LeaderboardSerializer

BY: tuple[By, ...] = get_args(By)


class LeaderboardView(ApiView):
    """The leaderboard of an environment or of one of its splits, best mean return first. A key gets a 403."""

    parameters = ("split", "by", "return", "threshold")

    @documented(
        "leaderboard",
        "figures",
        LeaderboardSerializer,
        parameter("split", "Name of one of its splits; default: all its tasks"),
        parameter("by", "What a row stands for; default `model`", enum=BY),
        parameter("return", "Definition of the return; default: that of the environment"),
        parameter("threshold", "A return above it is a success; default: that of the environment", kind=float),
        is_one=True,
    )
    def get(self, request: Request, name: str) -> Response:
        self.reader.refuse_keys("Leaderboards")
        environment = environment_of(name)
        by = cast(By, one_of(request, "by", BY, "model"))
        asked = cast(Return | None, one_of(request, "return", RETURNS) or None)
        definition = definition_of(environment, asked, real(request, "threshold"))
        found = leaderboard(environment, split_of(environment, request.GET.get("split", "")), by, definition)
        content = {
            "environment": name,
            "split": found.split.name if found.split else None,
            "by": by,
            "definition": {"return": definition.return_, "threshold": definition.threshold},
            "tasks": found.tasks,
            "is_bounded": found.is_bounded,
            "note": found.note,
            "rows": found.rows,
        }
        return Response(LeaderboardSerializer(content).data)
