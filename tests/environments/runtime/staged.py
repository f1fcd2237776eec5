"""Environments whose stages, from the lookup of a task to teardown, wait until the test releases
them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Sequence
from typing import Any, ClassVar

from environments import Blocks, Environment, JSONObject, Message, TextBlock, ToolOutput, tool
from tests.envs import Echo, Procedural
from tests.envs_base import Small, said


class Staged(Small):
    """Each stage that the task names waits in a thread until the test releases it; `events` lists what happened."""

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


class Wrapped(ToldSlowly):
    """Its async method is hidden by a plain one."""

    def get_messages(self) -> Awaitable[Sequence[Message]]:  # type: ignore[override]
        return super().get_messages()


class OnItsThread(Procedural):
    """Tasks by number; a prompt made of plain messages, which async code asks for in a thread and
    loop of its own."""

    own_thread = True
    threads: ClassVar[list[str]] = []

    async def setup(self) -> None:
        await self.get_prompt()  # type: ignore[misc]

    def get_messages(self) -> Sequence[Message]:
        OnItsThread.threads.append(threading.current_thread().name)
        return [Message(role="user", blocks=[TextBlock(text="hello")])]

    get_prompt = Environment.get_prompt


class OnALoopOfItsOwn(Small):
    """A tool that asks for the messages, which are made of a plain prompt, on another loop."""

    @tool
    async def ask(self) -> ToolOutput:
        """Ask elsewhere."""
        messages: Any = self.get_messages()
        [message] = await asyncio.to_thread(asyncio.run, messages)
        return said(message.role)


class SlowTasks(Echo):
    """`get_task` waits in a thread."""

    @classmethod
    def get_task(cls, split: str, index: int) -> JSONObject:  # type: ignore[override]
        Staged.events.append("get_task starts")
        Staged.doors["work"].wait(30)
        return {"id": "slow"}
