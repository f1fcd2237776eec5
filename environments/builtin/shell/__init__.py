from environments.builtin.shell.shell import Shell

__all__ = ["Shell"]
