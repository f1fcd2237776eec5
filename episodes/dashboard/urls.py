"""The dashboard's pages, at the root of the site. First segments are among `environments.reserved.PAGES`."""

from __future__ import annotations

from django.urls import path

from episodes.dashboard.events import events
from episodes.dashboard.overview import overview

urlpatterns = [
    path("", overview, name="overview"),
    path("events/", events, name="events"),
]
