"""The environment that the benchmarks play, written for this server. `echo_ors` has its counterpart
for the reference.

Tools: `echo(text, last)` returns the text, `nap(seconds)` sleeps on a plain thread, `spin(seconds)`
computes on one. Rewards: 0.1 per call. A call with `last` finishes the episode.
"""

from __future__ import annotations

import time

from pydantic import BaseModel

from environments import Environment, TextBlock, ToolOutput, tool
from environments.wire import Blocks, JSONObject


class Say(BaseModel):
    text: str
    last: bool = False


class Nap(BaseModel):
    seconds: float
    last: bool = False


class Echo(Environment):
    """Returns the text that it receives."""

    @classmethod
    def list_splits(cls) -> list[str]:
        return ["train"]

    @classmethod
    def list_tasks(cls, split: str) -> list[JSONObject]:
        return [
            {"id": number, "question": f"Say something {number} times."} for number in range(100)
        ]

    async def get_prompt(self) -> Blocks:
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

    def get_prompt(self) -> Blocks:  # type: ignore[override]
        return [TextBlock(text=str(self.task_spec["question"]))]

    @tool
    def echo(self, message: Say) -> ToolOutput:  # type: ignore[override]
        """Answers the text."""
        return ToolOutput(blocks=[TextBlock(text=message.text)], reward=0.1, finished=message.last)
