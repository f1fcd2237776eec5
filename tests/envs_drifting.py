"""An environment that gives different results when an episode is run again."""

from __future__ import annotations

import itertools
from typing import ClassVar

from environments import ToolOutput, tool
from tests.envs_base import Gate, Small, Text, said
from tests.envs_slow import GATES

WORLD: dict[str, ToolOutput | Exception] = {}
"""Outputs of `look` by text, which tests change; "as ever" and a reward of 0.1 by default."""


class Drifting(Small):
    """`look` pays 0.1 unless the test says otherwise, `roll` never says the same twice, `hold` waits for its gate."""

    rolls: ClassVar = itertools.count(1)

    @tool
    async def look(self, args: Text) -> ToolOutput:
        """Return what can be seen there now."""
        seen = WORLD.get(args.text, said("as ever", 0.1))
        if isinstance(seen, Exception):
            raise seen
        return seen

    @tool
    async def roll(self) -> ToolOutput:
        """A number that was not there before."""
        return said(f"rolled {next(Drifting.rolls)}", 0.25)

    @tool
    def hold(self, args: Gate) -> ToolOutput:
        """Wait until the test opens the gate."""
        if args.gate:
            GATES[args.gate].wait(30)
        return said("held", 0.1)

    @tool
    async def finish(self) -> ToolOutput:
        """End the episode."""
        return said("bye", 0.5, finished=True)
