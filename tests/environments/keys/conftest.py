from tests.environments.protocol.conftest import db

__all__ = ["db"]
