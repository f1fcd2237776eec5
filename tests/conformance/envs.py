"""Environments of the conformance tests alone: Blocking and Pictures."""

from __future__ import annotations

import base64
import time

from environments import Blocks, ImageBlock, JSONObject, TextBlock, ToolOutput, tool
from tests.envs_base import Small, said

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n not really").decode()


class Blocking(Small):
    """Plain code that blocks its thread for `seconds` of the task, where the task's `where` says."""

    def __init__(self, task_spec: JSONObject = {}, secrets: dict[str, str] = {}) -> None:
        super().__init__(task_spec, secrets)
        self._block("constructor")

    def setup(self) -> None:
        self._block("setup")

    def get_prompt(self) -> Blocks:
        self._block("prompt")
        return [TextBlock(text="Wait.")]

    @tool
    def work(self) -> ToolOutput:
        """Do what the task says."""
        self._block("tool")
        return said("done", 1.0, finished=True)

    def _block(self, where: str) -> None:
        if self.task_spec.get("where") == where:
            self.note(f"{where} blocks")
            time.sleep(self.task_spec["seconds"])


class Pictures(Small):
    """Shows images: one in the prompt, one beside the answer of `look`."""

    def get_prompt(self) -> Blocks:
        return [TextBlock(text="What is this?"), ImageBlock(data=PIXEL, mimeType="image/png", detail={"size": "low"})]

    @tool
    async def look(self) -> ToolOutput:
        """Look again."""
        picture = ImageBlock(data=PIXEL, mimeType="image/png")
        return ToolOutput(blocks=[TextBlock(text="again"), picture], metadata={"seen": 2}, reward=0.0)
