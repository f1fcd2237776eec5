"""Environments written for `ors` (ors-sdk 0.1.0), as its users write them, and hosted
unmodified."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Sequence
from typing import Any

from ors import Environment, ListToolsOutput, Split, TextBlock, ToolOutput, Toolset, ToolSpec, tool
from pydantic import BaseModel


class Text(BaseModel):
    text: str


class Seconds(BaseModel):
    seconds: float


def said(
    text: str, reward: float | None = None, finished: bool = False, **metadata: Any
) -> ToolOutput:
    return ToolOutput(
        blocks=[TextBlock(text=text)], metadata=metadata or None, reward=reward, finished=finished
    )


class Small(Environment):
    """Two tasks in train, one in test."""

    @classmethod
    def list_splits(cls) -> Sequence[Split | str]:
        return [Split(name="train", type="train"), "test"]

    @classmethod
    def list_tasks(cls, split: str) -> list[dict[str, Any]]:
        return [{"id": f"{split}-{index}"} for index in range({"train": 2, "test": 1}[split])]

    def get_prompt(self) -> list[TextBlock]:
        return [TextBlock(text=f"Task {self.task_spec.get('id', 'unnamed')}.")]


class OrsEcho(Small):
    """`echo` pays 0.1 a call, `finish` pays 0.5 and ends; `sleep` blocks; `fault` raises."""

    @tool
    async def echo(self, args: Text) -> ToolOutput:
        """Say it again."""
        return said(args.text, 0.1)

    @tool
    def sync_echo(self, args: Text) -> ToolOutput:
        """Say it again from plain code."""
        return said(args.text, 0.1)

    @tool
    def sleep(self, args: Seconds) -> ToolOutput:
        """Block for so many seconds."""
        time.sleep(args.seconds)
        return said("slept", 0.1)

    @tool
    async def fault(self) -> ToolOutput:
        """Raise RuntimeError."""
        raise RuntimeError("the valve is stuck")

    @tool
    async def finish(self) -> ToolOutput:
        """End the episode."""
        return said("bye", 0.5, finished=True)


class OrsThreads(Small):
    """`where` returns the threads on which constructor, setup and the tool itself ran, which must be one."""

    def __init__(self, task_spec: Any = {}, secrets: dict[str, str] = {}) -> None:
        super().__init__(task_spec, secrets)
        self.built_on = threading.get_ident()

    def setup(self) -> None:
        self.set_up_on = threading.get_ident()

    @tool
    def where(self) -> ToolOutput:
        """The threads, in metadata."""
        here = threading.get_ident()
        return said("here", constructor=self.built_on, setup=self.set_up_on, tool=here)

    @tool
    def elsewhere(self) -> ToolOutput:
        """The same from another tool."""
        return self.where()


class Signs(Toolset):
    """Tools that know their environment."""

    @tool
    async def wave(self) -> ToolOutput:
        """Wave."""
        return said(f"waving at {self.env.task_spec.get('id')}")

    @tool
    def nod(self) -> ToolOutput:
        """Nod."""
        return said("nodding")


class OrsToolset(Small):
    """One tool of its own, two from a toolset."""

    toolsets = [Signs]

    @tool
    async def own(self) -> ToolOutput:
        """The class's own."""
        return said("own", 1.0, finished=True)


class OrsTaskTools(Small):
    """`dig` is task-specific: listed where the task says `"dig": true`."""

    @tool
    async def look(self) -> ToolOutput:
        """Look around."""
        return said("a field")

    @tool(shared=False)
    async def dig(self) -> ToolOutput:
        """Dig a hole."""
        return said("a hole")

    def list_task_tools(self) -> ListToolsOutput:
        spec = ToolSpec(name="dig", description="Dig a hole.", input_schema=None)
        return ListToolsOutput(tools=[spec] if self.task_spec.get("dig") else [])


class OrsHidden(Small):
    """A task-specific tool without an override of `list_task_tools`."""

    @tool(shared=False)
    async def dig(self) -> ToolOutput:
        """Dig a hole."""
        return said("a hole")

    @tool
    async def look(self) -> ToolOutput:
        """Look around."""
        return said("a field")


class OrsMixed(Small):
    """Plain and async code over objects that are bound to one thread and one loop, which its own server has."""

    def __init__(self, task_spec: Any = {}, secrets: dict[str, str] = {}) -> None:
        super().__init__(task_spec, secrets)
        self.database = sqlite3.connect(":memory:")
        self.database.execute("CREATE TABLE notes (text)")

    def setup(self) -> None:
        self.greeting = asyncio.get_event_loop().create_task(self._greet())

    async def _greet(self) -> str:
        await asyncio.sleep(0)
        return "hello"

    @tool
    def note(self, args: Text) -> ToolOutput:
        """Write down."""
        self.database.execute("INSERT INTO notes VALUES (?)", (args.text,))
        return said("noted")

    @tool
    async def read(self) -> ToolOutput:
        """Greet and read all notes."""
        greeting = await self.greeting
        notes = [text for (text,) in self.database.execute("SELECT text FROM notes")]
        return said(f"{greeting} {threading.get_ident()} {','.join(notes)}")

    @tool
    async def wait(self) -> ToolOutput:
        """Wait for ever."""
        await asyncio.Event().wait()
        return said("never")

    async def teardown(self) -> None:
        self.database.close()


class OrsAsync(Small):
    """All its own code is async."""

    async def get_prompt(self) -> list[TextBlock]:  # type: ignore[override]
        return [TextBlock(text="go on")]

    @tool
    async def thread(self) -> ToolOutput:
        """The thread it runs on."""
        return said(str(threading.get_ident()))
