"""What the examples of clients call: one tool of an environment with an input that its schema allows.

Without a call, a session would be a probe, which no figure counts.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from random import Random
from typing import Any

from environments.checking.inputs import Inputs, Unproducible
from environments.checking.text import Seen
from environments.display.parts import ToolPart, read_json

FINAL_TOOLS = ("submit", "answer", "finish")
"""Usual names of the tool that ends an episode, the preferred first."""


@dataclass(frozen=True, slots=True)
class ExampleCall:
    tool: str
    input: dict[str, Any]

    @property
    def python(self) -> str:
        """The arguments of `call_tool`."""
        return f"{self.tool!r}, {self.input!r}"

    @property
    def shell(self) -> str:
        """The body of a request to `/call`, quoted for a shell."""
        return shlex.quote(json.dumps({"name": self.tool, "input": self.input}))


def example_call(tools: list[ToolPart] | None) -> ExampleCall | None:
    """Return a call of the tool that probably ends an episode, else of the first; None if there is none to call."""
    seen = Seen()
    seen.add("42")  # a text that tools for numbers take, too
    for tool in sorted(tools or [], key=_rank):
        chance = Random(1)  # nosec B311 # an example
        try:
            return ExampleCall(tool.name, Inputs(read_json(tool.schema) or None, chance, seen).valid())
        except Unproducible:
            continue
    return None


def _rank(tool: ToolPart) -> int:
    return FINAL_TOOLS.index(tool.name) if tool.name in FINAL_TOOLS else len(FINAL_TOOLS)
