"""An environment for `ors` whose plain code limits its time by an alarm, as graders do."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ors import Environment, Split, TextBlock, ToolOutput, tool
from pydantic import BaseModel


class Count(BaseModel):
    to: int


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    def give_up(number: int, frame: Any) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


class Alarm(Environment):
    @classmethod
    def list_splits(cls) -> list[Split | str]:
        return ["train"]

    @classmethod
    def list_tasks(cls, split: str) -> list[dict[str, Any]]:
        return [{"id": 1}]

    def get_prompt(self) -> list[TextBlock]:
        return [TextBlock(text="Count for at most a tenth of a second.")]

    @tool
    def count(self, params: Count) -> ToolOutput:
        """Count to a number."""
        number = 0
        try:
            with time_limit(0.1):
                while number < params.to:
                    number += 1
        except TimeoutError:
            return ToolOutput(blocks=[TextBlock(text="too slow")], reward=0.0, finished=False)
        return ToolOutput(blocks=[TextBlock(text=str(number))], reward=1.0, finished=False)

    @tool
    async def count_later(self, params: Count) -> ToolOutput:
        """Count to a number in async code."""
        return self.count(params)


class Alone(Alarm):
    isolation = "session"
