"""The environment of the benchmarks (see `echo`) as an `ors` class, which the reference and this
server both serve."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from ors import Environment, TextBlock, ToolOutput, tool
from pydantic import BaseModel


class Say(BaseModel):
    text: str
    last: bool = False


class Nap(BaseModel):
    seconds: float
    last: bool = False


class Echo(Environment):
    """Returns the text that it receives."""

    @classmethod
    def list_splits(cls) -> Sequence[str]:  # type: ignore[override]
        return ["train"]

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[dict[str, Any]]:
        return [
            {"id": number, "question": f"Say something {number} times."} for number in range(100)
        ]

    async def get_prompt(self) -> Sequence[TextBlock]:
        return [TextBlock(text=str(self.task_spec["question"]))]

    @tool
    async def echo(self, message: Say) -> ToolOutput:
        """Answers the text."""
        return ToolOutput(blocks=[TextBlock(text=message.text)], reward=0.1, finished=message.last)

    @tool
    def nap(self, rest: Nap) -> ToolOutput:
        """Sleeps."""
        time.sleep(rest.seconds)
        return ToolOutput(blocks=[TextBlock(text="rested")], reward=0.1, finished=rest.last)

    @tool
    def spin(self, rest: Nap) -> ToolOutput:
        """Computes."""
        until = time.thread_time() + rest.seconds
        while time.thread_time() < until:
            sum(range(1000))
        return ToolOutput(blocks=[TextBlock(text="computed")], reward=0.1, finished=rest.last)


class PlainEcho(Echo):
    """The same with plain code, as most environments are written."""

    def get_prompt(self) -> Sequence[TextBlock]:  # type: ignore[override]
        return [TextBlock(text=str(self.task_spec["question"]))]

    @tool
    def echo(self, message: Say) -> ToolOutput:
        """Answers the text."""
        return ToolOutput(blocks=[TextBlock(text=message.text)], reward=0.1, finished=message.last)


class BuiltEcho(PlainEcho):
    """The same with a constructor, so that all of its code belongs to one thread."""

    def __init__(self, task_spec: Any, secrets: dict[str, str] | None = None) -> None:
        super().__init__(task_spec, secrets or {})
        self.said: list[str] = []
