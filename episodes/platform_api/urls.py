"""The paths under /v1/. `orsweb/agent_urls.py` includes them."""

from __future__ import annotations

from django.urls import path

from episodes.platform_api import rollouts

urlpatterns = [
    path("v1/rollouts", rollouts.RolloutsView.as_view()),
]
