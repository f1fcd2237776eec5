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
    async def echo(self, said: Say) -> ToolOutput:
        """Answers the text."""
        return ToolOutput(blocks=[TextBlock(text=said.text)], reward=0.1, finished=said.last)

    @tool
    def nap(self, wanted: Nap) -> ToolOutput:
        """Sleeps."""
        time.sleep(wanted.seconds)
        return ToolOutput(blocks=[TextBlock(text="rested")], reward=0.1, finished=wanted.last)

    @tool
    def spin(self, wanted: Nap) -> ToolOutput:
        """Computes."""
        until = time.thread_time() + wanted.seconds
        while time.thread_time() < until:
            sum(range(1000))
        return ToolOutput(blocks=[TextBlock(text="computed")], reward=0.1, finished=wanted.last)


class PlainEcho(Echo):
    """The same with plain code, as most environments are written."""

    def get_prompt(self) -> Blocks:  # type: ignore[override]
        return [TextBlock(text=str(self.task_spec["question"]))]

    @tool
    def echo(self, said: Say) -> ToolOutput:  # type: ignore[override]
        """Answers the text."""
        return ToolOutput(blocks=[TextBlock(text=said.text)], reward=0.1, finished=said.last)


class ManyTasks(Echo):
    """Has a million tasks."""

    @classmethod
    def list_tasks(cls, split: str) -> list[JSONObject]:
        return [
            {"id": number, "question": f"Say something {number} times."}
            for number in range(1_000_000)
        ]


class HundredThousand(Echo):
    """Has 100,000 tasks, and a split without any."""

    @classmethod
    def list_splits(cls) -> list[str]:
        return ["train", "spare"]

    @classmethod
    def list_tasks(cls, split: str) -> list[JSONObject]:
        count = 100_000 if split == "train" else 0
        return [
            {"id": number, "question": f"Say something {number} times."} for number in range(count)
        ]
