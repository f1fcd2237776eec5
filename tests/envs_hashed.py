"""An environment whose tasks depend on the seed of Python's hashes, as `random.seed(hash(id))` at
import does."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence

from pydantic import BaseModel

from environments import Blocks, Environment, JSONObject, TextBlock, ToolOutput, tool

ANSWERS = [random.Random(hash(f"question {number}")).randrange(10**9) for number in range(4)]


class Answer(BaseModel):
    number: int


class Hashed(Environment):
    @classmethod
    def list_splits(cls) -> Sequence[str]:
        return ["train"]

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        return [{"id": id, "answer": answer} for id, answer in enumerate(ANSWERS)]

    def get_prompt(self) -> Blocks:
        return [TextBlock(text=f"Which number has question {self.task_spec['id']}?")]

    @tool
    def answer(self, params: Answer) -> ToolOutput:
        """Answer the question."""
        is_right = params.number == ANSWERS[self.task_spec["id"]]
        seed = TextBlock(text=f"seed {os.environ['PYTHONHASHSEED']}")
        return ToolOutput(blocks=[seed], reward=float(is_right), finished=True)
