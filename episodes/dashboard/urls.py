"""The dashboard's pages, at the root of the site. First segments are among `environments.reserved.PAGES`."""

from __future__ import annotations

from django.urls import path

from episodes.dashboard.browse import delete_view, episode_preview, episodes, save_view
from episodes.dashboard.events import events
from episodes.dashboard.overview import overview

urlpatterns = [
    path("", overview, name="overview"),
    path("episodes/", episodes, name="episodes"),
    path("episodes/views/", save_view, name="save_view"),
    path("episodes/views/<int:pk>/delete/", delete_view, name="delete_view"),
    path("episodes/<int:pk>/preview/", episode_preview, name="episode_preview"),
    path("events/", events, name="events"),
]
