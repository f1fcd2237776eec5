"""An environment whose tasks hold texts that a key without the scope `curate` must never read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from environments import Blocks, JSONObject, TextBlock, ToolOutput, tool
from tests.envs_base import COUNTS, Listed, Text, said

HIDDEN, SEALED, SHOWN = (
    "canary-of-a-hidden-field",
    "canary-of-a-sealed-split",
    "what-everybody-may-read",
)


class Canary(Listed):
    """Every task has a hidden answer; those of `test` have a text that only their listing could reveal."""

    hidden_fields: ClassVar[Sequence[str]] = ("answer",)

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        text = SEALED if split == "test" else SHOWN
        return [
            {"id": f"{split}-{n}", "text": text, "answer": f"{HIDDEN}-{n}"}
            for n in range(COUNTS[split])
        ]

    def get_prompt(self) -> Blocks:
        return [TextBlock(text=f"Task {self.task_spec['id']}.")]

    @tool
    async def answer(self, args: Text) -> ToolOutput:
        """Give the answer."""
        is_right = args.text == self.task_spec["answer"]
        return said("right" if is_right else "wrong", float(is_right), finished=True)


class Quetzal(Canary):
    """Its tasks, prompts and outputs have the word `quetzal`, under which tests host it too."""

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        return [
            {"id": f"quetzal-{split}-{n}", "text": "", "answer": "?"} for n in range(COUNTS[split])
        ]

    @tool
    async def look(self) -> ToolOutput:
        """Look at the bird."""
        return said("a quetzal")
