"""Environments whose stages wait for the test: constructor, setup, tools, teardown, and the look-up of a task."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import ClassVar

from environments import Blocks, JSONObject, Message, TextBlock, ToolOutput, tool
from tests.envs import Echo
from tests.envs_base import Small, said


class Staged(Small):
    """Each stage that the task names waits, in a thread, until the test lets it go on; `events` tells what happened."""

    events: ClassVar[list[str]] = []
    doors: ClassVar[dict[str, threading.Event]] = {}

    def __init__(self, task_spec: JSONObject = {}, secrets: dict[str, str] = {}) -> None:
        super().__init__(task_spec, secrets)
        self._stage("constructor")

    def setup(self) -> None:
        self._stage("setup")

    def teardown(self) -> None:
        self._stage("teardown")

    @tool
    def work(self) -> ToolOutput:
        """Wait in a thread."""
        self._stage("work")
        return said("worked", 1.0)

    def _stage(self, name: str) -> None:
        Staged.events.append(f"{name} starts")
        if name in self.task_spec.get("waits", ()):
            Staged.doors[name].wait(30)
        Staged.events.append(f"{name} ends")


class ToldSlowly(Staged):
    """Async messages made of a plain prompt, which waits in a thread."""

    def get_prompt(self) -> Blocks:
        self._stage("work")
        return [TextBlock(text="at last")]

    async def get_messages(self) -> Sequence[Message]:
        return await super().get_messages()


class SlowTasks(Echo):
    """`get_task` waits in a thread."""

    @classmethod
    def get_task(cls, split: str, index: int) -> JSONObject:  # type: ignore[override]
        Staged.events.append("get_task starts")
        Staged.doors["work"].wait(30)
        return {"id": "slow"}
