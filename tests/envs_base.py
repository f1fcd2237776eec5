"""The tasks, prompt, inputs and log that the test environments share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from environments import Blocks, Environment, JSONObject, Split, TextBlock, ToolOutput

COUNTS = {"train": 3, "test": 2}


class Text(BaseModel):
    text: str


class Seconds(BaseModel):
    seconds: float = 0.0


class Gate(BaseModel):
    gate: str = ""


class Size(BaseModel):
    size_bytes: int


class Numbers(BaseModel):
    a: float
    b: float


def said(
    text: str, reward: float | None = None, *, finished: bool = False, **metadata: Any
) -> ToolOutput:
    """Return an output with one text block; further keyword arguments are its metadata."""
    return ToolOutput(
        blocks=[TextBlock(text=text)], metadata=metadata or None, reward=reward, finished=finished
    )


class Listed(Environment):
    """Three tasks in train and two in test: `{"id": "train-0"}` and so on."""

    @classmethod
    def list_splits(cls) -> Sequence[Split | str]:
        return list(COUNTS)

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        return [{"id": f"{split}-{index}"} for index in range(COUNTS[split])]

    def note(self, event: str) -> None:
        """Append `event` to the task's log file; one write, so that lines of several threads do not
        mix."""
        if path := self.task_spec.get("log"):
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(event + "\n")


class Small(Listed):
    """A base class with tasks and a prompt. It has no tools, so it cannot be hosted itself."""

    def get_prompt(self) -> Blocks:
        return [TextBlock(text=f"Task {self.task_spec.get('id', 'unnamed')}.")]
