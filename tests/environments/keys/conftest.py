from tests.environments.agents.ors.conftest import db

__all__ = ["db"]
