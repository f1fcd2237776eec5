from __future__ import annotations

from tests.environments.agents.ors.conftest import client, db

__all__ = ["client", "db"]
