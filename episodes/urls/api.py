"""URLs under /api/. They have no slash at the end, because they name documents."""

from __future__ import annotations

from django.urls import path, re_path

from environments.features import url_patterns
from episodes.api.base import unknown
from episodes.api.episodes import EpisodesView, EpisodeView
from episodes.api.events import EventsView
from episodes.api.keys import OwnKeyView
from episodes.api.openapi import DocumentView, reference
from episodes.api.rollouts import RolloutListView, RolloutMessagesView, RolloutView
from episodes.api.steps import StepsView, StepView
from episodes.figures import urls as figures

urlpatterns = [
    path("", reference, name="api"),
    path("schema", DocumentView.as_view(), name="api-schema"),
    path("episodes", EpisodesView.as_view(), name="api-episodes"),
    path("episodes/<id:pk>", EpisodeView.as_view(), name="api-episode"),
    path("episodes/<id:pk>/steps", StepsView.as_view(), name="api-steps"),
    path("episodes/<id:pk>/steps/<id:index>", StepView.as_view(), name="api-step"),
    path("episodes/<id:pk>/events", EventsView.as_view(), name="api-events"),
    *figures.rows_api,
    path("rollouts", RolloutListView.as_view(), name="api-rollouts"),
    path("rollouts/<id:pk>", RolloutView.as_view(), name="api-rollout"),
    path("rollouts/<id:pk>/messages", RolloutMessagesView.as_view(), name="api-rollout-messages"),
    *figures.api,
    *url_patterns("api"),
    path("keys/me", OwnKeyView.as_view(), name="api-own-key"),
    re_path(r"^(?P<rest>[\s\S]+)$", unknown),
]
