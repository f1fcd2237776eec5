"""URLs under /api/. They have no slash at the end, because they name documents."""

from __future__ import annotations

from django.urls import path, re_path

from environments import features
from episodes.api.base import unknown
from episodes.api.curves import CurvesView
from episodes.api.environments import EnvironmentsView, EnvironmentView
from episodes.api.episodes import EpisodesView, EpisodeView
from episodes.api.events import EventsView
from episodes.api.export import ExportView
from episodes.api.keys import OwnKeyView
from episodes.api.leaderboards import LeaderboardView
from episodes.api.openapi import DocumentView, reference
from episodes.api.rollouts import RolloutListView, RolloutMessagesView, RolloutView
from episodes.api.runs import RunsView, RunView, SteeredRunView
from episodes.api.steps import StepsView, StepView
from episodes.api.tasks import TasksView, TaskView

urlpatterns = [
    path("", reference, name="api"),
    path("schema", DocumentView.as_view(), name="api-schema"),
    path("episodes", EpisodesView.as_view(), name="api-episodes"),
    path("episodes/export", ExportView.as_view(), name="api-export"),
    path("episodes/<id:pk>", EpisodeView.as_view(), name="api-episode"),
    path("episodes/<id:pk>/steps", StepsView.as_view(), name="api-steps"),
    path("episodes/<id:pk>/steps/<id:index>", StepView.as_view(), name="api-step"),
    path("episodes/<id:pk>/events", EventsView.as_view(), name="api-events"),
    path("environments", EnvironmentsView.as_view(), name="api-environments"),
    path("environments/<str:name>", EnvironmentView.as_view(), name="api-environment"),
    path("tasks", TasksView.as_view(), name="api-tasks"),
    path("tasks/<id:pk>", TaskView.as_view(), name="api-task"),
    path("runs", RunsView.as_view(), name="api-runs"),
    path("runs/<id:pk>", RunView.as_view(), name="api-run"),
    re_path(r"^runs/by-name/(?P<name>[\s\S]+)$", SteeredRunView.as_view(), name="api-run-by-name"),
    path("rollouts", RolloutListView.as_view(), name="api-rollouts"),
    path("rollouts/<id:pk>", RolloutView.as_view(), name="api-rollout"),
    path("rollouts/<id:pk>/messages", RolloutMessagesView.as_view(), name="api-rollout-messages"),
    path("curves", CurvesView.as_view(), name="api-curves"),
    path("environments/<str:name>/leaderboard", LeaderboardView.as_view(), name="api-leaderboard"),
    *features.api(),
    path("keys/me", OwnKeyView.as_view(), name="api-own-key"),
    re_path(r"^(?P<rest>[\s\S]+)$", unknown),
]
