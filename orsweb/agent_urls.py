"""The URLs of agents (MCP, those of features, the Open Reward Standard) and of probes."""

from __future__ import annotations

from environments.agents.mcp.urls import urlpatterns as mcp
from environments.agents.ors.urls import urlpatterns as ors
from environments.features import agent_url_patterns
from orsweb.operations.urls import urlpatterns as operations

# The protocol's are the last, because they would take the others' paths for names of environments.
urlpatterns = [*operations, *mcp, *agent_url_patterns(), *ors]
