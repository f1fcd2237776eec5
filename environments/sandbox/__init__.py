"""Runs programs that nobody trusts."""

from environments.sandbox.bubblewrap import Sandbox

__all__ = ["Sandbox"]
