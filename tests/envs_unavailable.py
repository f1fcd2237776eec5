"""Environments of this package and of `ors` that the machine cannot run, and some with a faulty
`unavailable`."""

from __future__ import annotations

from typing import Any

from tests.envs import Echo
from tests.envs_ors import OrsEcho

REASON = "It needs a flux capacitor; install the package flux."


class Native(Echo):
    @classmethod
    def unavailable(cls) -> str | None:
        return "It needs a flux capacitor;\n install the package flux."


class OrsClass(OrsEcho):
    @classmethod
    def unavailable(cls) -> str:
        return REASON


class OrsField(OrsEcho):
    """A class that uses the name `unavailable` for something else."""

    unavailable = ("on sundays",)


class Raises(Echo):
    @classmethod
    def unavailable(cls) -> str | None:
        raise OSError("no such bus")


class Returns(Echo):
    @classmethod
    def unavailable(cls) -> Any:
        return True
