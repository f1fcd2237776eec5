"""URLs of files of episodes."""

from __future__ import annotations

from django.urls import path

from episodes.transfer.api import ExportView
from episodes.transfer.pages import episode_export, rollout_export

pages = [
    path("episodes/export", episode_export, name="episode_export"),
    path("rollouts/export", rollout_export, name="rollout_export"),
]
api = [path("episodes/export", ExportView.as_view(), name="api-export")]
