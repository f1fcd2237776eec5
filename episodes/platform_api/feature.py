"""What the data API of the commercial platform adds: addresses for its clients."""

from environments.features import Feature

FEATURE = Feature(agent_urls="episodes.platform_api.urls")
