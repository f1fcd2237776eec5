"""The URLs of agents (MCP, the platform's data API, the Open Reward Standard) and of probes."""

from __future__ import annotations

from environments.agents.mcp.urls import urlpatterns as mcp
from environments.agents.ors.urls import urlpatterns as ors
from episodes.platform_api.urls import urlpatterns as platform
from orsweb.operations.urls import urlpatterns as operations

# The protocol's are the last, because they would take the others' paths for names of environments.
urlpatterns = [*operations, *mcp, *platform, *ors]
