"""Environments for hostile tests, whose own code never fails and never ends an episode unasked:
Sturdy and Hoard."""

from __future__ import annotations

from collections.abc import Sequence

from environments import GroupCandidate, GroupScore, TextBlock, ToolOutput, tool
from tests.envs_base import Numbers, Small, Text, said


class Sturdy(Small):
    """Takes any task. `count` says how often it was called, so that a call which ran twice or never shows."""

    calls = 0

    @tool
    async def count(self) -> ToolOutput:
        """Say the number of this call."""
        self.calls += 1
        return said(str(self.calls), 1.0)

    @tool
    async def echo(self, args: Text) -> ToolOutput:
        """Say it again."""
        return said(args.text, 0.1)

    @tool
    def add(self, args: Numbers) -> ToolOutput:
        """Add two numbers, on a thread."""
        return said(str(args.a + args.b), 0.0)

    @tool
    async def finish(self) -> ToolOutput:
        """End the episode."""
        return said("bye", 0.5, finished=True)

    async def score_group(
        self, candidates: Sequence[GroupCandidate]
    ) -> Sequence[GroupScore | float]:
        return [float(len(one.messages)) for one in candidates]


class Hoard(Small):
    """Holds `megabytes` of its task, or 300, for as long as its session lasts."""

    def setup(self) -> None:
        self.held = b"\1" * (int(self.task_spec.get("megabytes", 300)) * 1_000_000)

    @tool
    async def weigh(self) -> ToolOutput:
        """Say how many bytes are held."""
        return ToolOutput(blocks=[TextBlock(text=str(len(self.held)))], reward=0.0)
