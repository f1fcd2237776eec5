from environments.builtin.web.web import Web

__all__ = ["Web"]
