"""Environments whose tasks people edit: Quiz accepts any object as a task, Strict declares a
schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import BaseModel, Field

from environments import Blocks, Environment, JSONObject, Split, TextBlock, ToolOutput, tool
from tests.envs_base import Text, said


class Question(BaseModel):
    question: str = Field(description="What the agent is asked.")
    level: int = Field(1, ge=1, le=4, description="How hard it is.")


class Quiz(Environment):
    """Sixty questions in train, twenty in test: `{"question": "What is train 7?", "answer": 7}`."""

    @classmethod
    def list_splits(cls) -> Sequence[Split | str]:
        return ["train", "test"]

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        return [
            {"question": f"What is {split} {n}?", "answer": n}
            for n in range(60 if split == "train" else 20)
        ]

    def get_prompt(self) -> Blocks:
        return [TextBlock(text=str(self.task_spec["question"]))]

    @tool
    async def submit(self, args: Text) -> ToolOutput:
        """Answer."""
        is_right = args.text == str(self.task_spec.get("answer"))
        return said("right" if is_right else "wrong", float(is_right), finished=True)


class Strict(Quiz):
    """Two questions that have to be as `Question` says."""

    task_schema: ClassVar[type[BaseModel]] = Question

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        return [
            {"question": f"The first of {split}?", "level": 1},
            {"question": f"The second of {split}?", "level": 2},
        ]
