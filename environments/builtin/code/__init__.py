from environments.builtin.code.code import Code

__all__ = ["Code"]
