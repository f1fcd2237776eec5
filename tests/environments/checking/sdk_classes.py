"""Classes of both SDKs with an oracle and exploits. Served as
`tests.environments.checking.sdk_classes:Name`."""

from __future__ import annotations

from typing import Any

import openreward.environments as orw
import ors
from pydantic import BaseModel


class Answer(BaseModel):
    text: str


class Echo:
    """Say the word again."""

    @classmethod
    def list_splits(cls) -> list[str]:
        return ["train"]

    @classmethod
    def list_tasks(cls, split: str) -> list[dict[str, Any]]:
        return [{"word": "stone"}, {"word": "lamp"}]

    def oracle(self) -> list[tuple[str, dict[str, str]]]:
        return [("answer", {"text": self.task_spec["word"]})]  # type: ignore[attr-defined]

    def exploits(self) -> dict[str, list[tuple[str, dict[str, str]]]]:
        return {"both words": [("answer", {"text": "stone lamp"})]}


class OrsEcho(Echo, ors.Environment):
    """Say the word again."""

    def get_prompt(self) -> list[Any]:
        return [ors.TextBlock(text="Say it.")]

    @ors.tool
    def answer(self, params: Answer) -> ors.ToolOutput:
        """Say a word."""
        is_right = params.text == self.task_spec["word"]
        return ors.ToolOutput(
            blocks=[ors.TextBlock(text="Heard.")], reward=float(is_right), finished=True
        )


class OrwEcho(Echo, orw.Environment):
    """Say the word again."""

    def get_prompt(self) -> list[Any]:
        return [orw.TextBlock(text="Say it.")]

    @orw.tool
    async def answer(self, params: Answer) -> orw.ToolOutput:
        """Say a word."""
        is_right = params.text == self.task_spec["word"]
        return orw.ToolOutput(
            blocks=[orw.TextBlock(text="Heard.")], reward=float(is_right), finished=True
        )
