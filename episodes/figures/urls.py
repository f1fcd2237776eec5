"""URLs of figures."""

from __future__ import annotations

from django.urls import path, re_path

from episodes.dashboard.guards import of_run, of_task, unless_task_blind
from episodes.figures.comparison.api import CompareView
from episodes.figures.comparison.pages import compare
from episodes.figures.curves.api import CurvesView
from episodes.figures.curves.pages import curves, run_choices
from episodes.figures.environments.api import EnvironmentsView, EnvironmentView
from episodes.figures.environments.overview import overview
from episodes.figures.environments.pages import environment_page, environments
from episodes.figures.groups.pages import group, groups, run_groups
from episodes.figures.leaderboard.api import LeaderboardView
from episodes.figures.leaderboard.pages import board, leaderboard_compare
from episodes.figures.runs.api import RunsView, RunView, SteeredRunView
from episodes.figures.runs.pages import runs
from episodes.figures.runs.run_page import run_page
from episodes.figures.scalars.api import ScalarsView
from episodes.figures.tasks.api import TasksView, TaskView
from episodes.figures.tasks.pages import task_page

pages = [
    path("", overview, name="overview"),
    path("environments/", environments, name="environments"),
    path("environments/<str:name>/", environment_page, name="environment"),
    path("tasks/<id:pk>/", of_task(unless_task_blind(task_page)), name="task"),
    path("tasks/<id:pk>/group/", of_task(unless_task_blind(group)), name="group"),
    path("compare/", compare, name="compare"),
    path("environments/<str:name>/leaderboard/", board, name="leaderboard"),
    path(
        "environments/<str:name>/leaderboard/compare/",
        leaderboard_compare,
        name="leaderboard_compare",
    ),
    path("runs/", runs, name="runs"),
    path("runs/<id:pk>/", of_run(run_page), name="run"),
    path("runs/<id:pk>/groups/", of_run(run_groups), name="run_groups"),
    path("runs/groups/", groups, name="groups"),
    path("runs/choices/", run_choices, name="run_choices"),
    path("runs/curves/", curves, name="curves"),
]
rows_api = [
    path("environments", EnvironmentsView.as_view(), name="api-environments"),
    path("environments/<str:name>", EnvironmentView.as_view(), name="api-environment"),
    path("tasks", TasksView.as_view(), name="api-tasks"),
    path("tasks/<id:pk>", TaskView.as_view(), name="api-task"),
    path("runs", RunsView.as_view(), name="api-runs"),
    path("runs/<id:pk>", RunView.as_view(), name="api-run"),
    re_path(r"^runs/by-name/(?P<name>[\s\S]+)$", SteeredRunView.as_view(), name="api-run-by-name"),
]
"""JSON of environments, tasks and runs, which have figures."""
api = [
    path("scalars", ScalarsView.as_view(), name="api-scalars"),
    path("curves", CurvesView.as_view(), name="api-curves"),
    path("compare", CompareView.as_view(), name="api-compare"),
    path("environments/<str:name>/leaderboard", LeaderboardView.as_view(), name="api-leaderboard"),
]
"""JSON of figures alone."""
