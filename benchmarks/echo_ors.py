"""The environment of the benchmarks (see `echo`) as an `ors` class, which the reference and this server both serve."""

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
        return [{"id": number, "question": f"Say something {number} times."} for number in range(100)]

    async def get_prompt(self) -> Sequence[TextBlock]:
        return [TextBlock(text=str(self.task_spec["question"]))]

    @tool
    async def echo(self, said: Say) -> ToolOutput:
        """Answers the text."""
        return ToolOutput(blocks=[TextBlock(text=said.text)], reward=0.1, finished=said.last)

    @tool
    def nap(self, wanted: Nap) -> ToolOutput:
        """Sleeps."""
        time.sleep(wanted.seconds)
        return ToolOutput(blocks=[TextBlock(text="rested")], reward=0.1, finished=wanted.last)
