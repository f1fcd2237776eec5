"""The URLs of agents: those of MCP and those of the Open Reward Standard. `asgi.py` separates them from the pages."""

from __future__ import annotations

from environments.mcp_protocol.urls import urlpatterns as mcp
from environments.protocol.urls import urlpatterns as ors

urlpatterns = [*mcp, *ors]  # MCP first: its paths would otherwise be those of an environment named "mcp"
