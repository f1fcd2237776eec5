"""The environment of the benchmarks (see `echo`) as an `openreward` class, which its server and
this one both serve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from openreward.environments import Environment, TextBlock, ToolOutput, tool
from pydantic import BaseModel


class Say(BaseModel):
    text: str
    last: bool = False


class PlainEcho(Environment):  # type: ignore[misc]
    """Returns the text that it receives."""

    @classmethod
    def list_splits(cls) -> Sequence[str]:
        return ["train"]

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[dict[str, Any]]:
        return [
            {"id": number, "question": f"Say something {number} times."} for number in range(100)
        ]

    def get_prompt(self) -> Sequence[TextBlock]:
        return [TextBlock(text=str(self.task_spec["question"]))]

    @tool  # type: ignore[untyped-decorator]
    def echo(self, message: Say) -> ToolOutput:
        """Answers the text."""
        return ToolOutput(blocks=[TextBlock(text=message.text)], reward=0.1, finished=message.last)
