"""The addresses of MCP: one for each hosted environment."""

from __future__ import annotations

from django.urls import path

from environments.agents.mcp.view import McpView

urlpatterns = [path("mcp", McpView.as_view()), path("mcp/<str:env_name>", McpView.as_view())]
