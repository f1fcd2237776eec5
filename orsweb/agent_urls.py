"""The URLs of agents (MCP, those of features, the Open Reward Standard) and of probes."""

from __future__ import annotations

from django.urls import path

from environments.agents.mcp.view import McpView
from environments.agents.ors.urls import urlpatterns as ors
from environments.features import agent_url_patterns
from orsweb.operations.endpoints import Metrics, Ready

urlpatterns = [
    path("ready", Ready.as_view()),
    path("metrics", Metrics.as_view()),
    path("mcp", McpView.as_view()),
    path("mcp/<str:env_name>", McpView.as_view()),
    *agent_url_patterns(),
    *ors,  # the last, because they would take the others' paths for names of environments
]
