"""Execution of untrusted programs, used by the bundled environments that run code of agents."""

from environments.sandbox.bubblewrap import Sandbox

__all__ = ["Sandbox"]
