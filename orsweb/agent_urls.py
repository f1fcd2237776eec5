"""The URLs of agents: the platform's data API and the Open Reward Standard. `asgi.py` separates them from the pages."""

from __future__ import annotations

from environments.protocol.urls import urlpatterns as ors
from episodes.platform_api.urls import urlpatterns as platform

urlpatterns = [*platform, *ors]
