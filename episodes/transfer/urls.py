"""URLs of files of episodes."""

from __future__ import annotations

from django.urls import path
from django.views.generic import RedirectView

from episodes.transfer.api import ExportView
from episodes.transfer.pages import episode_export, rollout_export

pages = [
    path("episodes/export", episode_export, name="episode_export"),
    path("conversations/export", rollout_export, name="rollout_export"),
    path(
        "rollouts/export",  # its former address
        RedirectView.as_view(pattern_name="rollout_export", permanent=True, query_string=True),
    ),
]
api = [path("episodes/export", ExportView.as_view(), name="api-export")]
