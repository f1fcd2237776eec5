"""Environments whose sessions go on after a restart of the server, and one whose sessions don't."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel

from environments import JSONObject, ToolOutput, tool
from tests.envs_base import Small, said


class Number(BaseModel):
    number: int
    seconds: float = 0.0


class Adding(Small):
    """Adds numbers up, and notes each call in the file that the variable ADDING_LOG names."""

    replayable: ClassVar[bool] = True

    def setup(self) -> None:
        self.sum = 0

    @tool
    async def add(self, given: Number) -> ToolOutput:
        """Add a number, after a while."""
        self.note(f"add {given.number} starts")
        await asyncio.sleep(given.seconds)
        self.sum += given.number
        return said(str(self.sum), float(given.number))

    @tool
    def process(self) -> ToolOutput:
        """Return the number of the process, which is another one after a restart."""
        return said(str(os.getpid()), 0.0)

    def note(self, event: str) -> None:
        if path := os.environ.get("ADDING_LOG"):
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(event + "\n")


class Telling(Adding):
    """The same, with a secret, which a tool tells."""

    def __init__(self, task_spec: JSONObject = {}, secrets: dict[str, str] = {}) -> None:
        super().__init__(task_spec, secrets)
        self.token = secrets["token"]

    @tool
    def tell(self) -> ToolOutput:
        """Tell the secret."""
        return said(self.token)


class AddingInWorkers(Adding):
    """The same in worker processes."""

    isolation = "process"


class Forgetting(Adding):
    """The same, but its author promises nothing."""

    replayable = False


class Saving(Forgetting):
    """The same, which is saved after each call, by plain code."""

    def save(self) -> bytes:
        return str(self.sum).encode()

    def load(self, state: bytes) -> None:
        self.note("load")
        self.sum = int(state)


class SavingInWorkers(Saving):
    """The same in worker processes, saved by async code."""

    isolation = "process"

    async def save(self) -> bytes:  # type: ignore[override]
        return super().save()

    async def load(self, state: bytes) -> None:  # type: ignore[override]
        super().load(state)

    @tool
    def crash(self) -> ToolOutput:
        """End the process."""
        os._exit(3)


class SavingSeldom(Saving):
    """Saved after every second call."""

    snapshot_every = 2


class SavingAndAdding(SavingSeldom):
    """The same, whose calls can also be made again."""

    replayable = True
