from __future__ import annotations

from tests.environments.protocol.conftest import client, db

__all__ = ["client", "db"]
