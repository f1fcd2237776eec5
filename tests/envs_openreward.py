"""Environments written for `openreward` (0.1.167), as its users write them, and hosted
unmodified."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from tests import provider_types  # noqa: F401 - before openreward

# isort: split
from openreward.environments import (
    Environment,
    GroupCandidate,
    GroupScore,
    Message,
    Split,
    TextBlock,
    ToolOutput,
    Toolset,
    terminal,
    tool,
)
from pydantic import BaseModel


class Text(BaseModel):
    text: str


class Seconds(BaseModel):
    seconds: float = 0.0


def said(
    text: str, reward: float | None = None, finished: bool = False, **metadata: Any
) -> ToolOutput:
    return ToolOutput(
        blocks=[TextBlock(text=text)], metadata=metadata or None, reward=reward, finished=finished
    )


class Tasks(Environment):
    """Two tasks in train, one in test."""

    @classmethod
    def list_splits(cls) -> Sequence[Split | str]:
        return ["train", "test"]

    @classmethod
    async def list_tasks(cls, split: str) -> list[dict[str, Any]]:
        return [{"id": f"{split}-{index}"} for index in range({"train": 2, "test": 1}[split])]


class Small(Tasks):
    async def get_prompt(self) -> list[TextBlock]:
        return [TextBlock(text=f"Task {self.task_spec.get('id', 'unnamed')}.")]


class OrwEcho(Small):
    """`echo` pays 0.1 a call, `finish` is exclusive, pays 0.5 and ends; `peek` is concurrent; `sleep` blocks."""

    @tool
    async def echo(self, args: Text) -> ToolOutput:
        """Say it again."""
        return said(args.text, 0.1)

    @tool
    def sync_echo(self, args: Text) -> ToolOutput:
        """Say it again from plain code."""
        return said(args.text, 0.1)

    @tool(concurrent=True)
    async def peek(self, args: Seconds) -> ToolOutput:
        """Wait beside other calls."""
        await asyncio.sleep(args.seconds)
        return said("peeked")

    @tool
    def sleep(self, args: Seconds) -> ToolOutput:
        """Block for so many seconds."""
        time.sleep(args.seconds)
        return said("slept", 0.1)

    @tool
    async def fault(self) -> ToolOutput:
        """Raise RuntimeError."""
        raise RuntimeError("the valve is stuck")

    @tool(exclusive=True)
    async def finish(self) -> ToolOutput:
        """End the episode."""
        return said("bye", 0.5, finished=True)


class OrwTerminal(Small):
    """The final message goes to `submit`, which pays 1.0 for "42"."""

    @tool
    async def look(self) -> ToolOutput:
        """Look around."""
        return said("a field")

    @terminal
    @tool
    async def submit(self, args: Text) -> ToolOutput:
        """Grade the final message."""
        return said("graded", float(args.text.strip() == "42"), finished=True)


class OrwConversation(Tasks):
    """A conversation and no prompt of its own; `/prompt` shows it flattened."""

    def get_messages(self) -> list[Message]:
        return [
            Message(role="system", blocks=[TextBlock(text="Be brief.")]),
            Message(role="user", blocks=[TextBlock(text="And now?")]),
        ]

    @tool
    async def reply(self, args: Text) -> ToolOutput:
        """Answer the conversation."""
        return said(args.text, 1.0, finished=True)


class OrwScored(Small):
    """Scores a candidate by the length of its last text."""

    @tool
    async def finish(self) -> ToolOutput:
        """End the episode."""
        return said("bye", finished=True)

    async def score_group(self, candidates: Sequence[GroupCandidate]) -> list[GroupScore | float]:
        texts = [candidate.messages[-1].blocks[-1].text for candidate in candidates]
        lengths = [float(len(text)) for text in texts]
        return [GroupScore(reward=lengths[0], metadata={"rank": 1}), *lengths[1:]]


class Signs(Toolset):
    """A toolset whose base class requires `env.sandbox`."""

    @tool
    async def wave(self) -> ToolOutput:
        """Wave."""
        return said(f"waving from {self.sandbox}")


class OrwToolset(Small):
    """One tool of its own, one from a toolset."""

    toolsets = [Signs]

    def __init__(self, task_spec: Any = {}, secrets: dict[str, str] = {}) -> None:
        super().__init__(task_spec, secrets)
        self.sandbox = "the box"

    @tool
    async def own(self) -> ToolOutput:
        """The class's own."""
        return said("own", 1.0, finished=True)
