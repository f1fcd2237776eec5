"""What the examples of clients call: one tool of an environment with an input that its schema
allows.

Without a call, a session would be a probe, which no figure counts.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from environments.checking.input_texts import Seen
from environments.checking.inputs import Inputs, Unproducible
from environments.display.parts import ToolPart, read_json

MAX_TRIES = 20
"""Inputs of which one is chosen by the numbers of the task."""
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


def example_call(tools: list[ToolPart] | None, task: str = "") -> ExampleCall | None:
    """Return a call of the tool that probably ends an episode, else of one with an example, else of
    the first.

    `task`: the task that the example plays, as one line. A whole number of the call is between the
    first two numbers in it, where that is possible: `low 1 · high 100`. Returns None if there is no
    tool to call.
    """
    seen, mentioned = Seen(), Seen()
    seen.add("42")  # a text that tools for numbers take, too
    mentioned.add(task)
    if len(mentioned.numbers) > 1:
        seen.numbers = sorted(mentioned.numbers[:2])
    for tool in sorted(tools or [], key=_rank):
        schema = read_json(tool.schema) or None
        chance = Random(1)  # nosec B311 # an example
        inputs = Inputs(schema, chance, seen)
        try:
            found = next(
                filter(
                    partial(_is_within, seen.numbers), (inputs.valid() for _ in range(MAX_TRIES))
                ),
                None,
            )
            return ExampleCall(tool.name, (found or inputs.valid()) | _examples(schema))
        except Unproducible:
            continue
    return None


def _is_within(numbers: Sequence[int], given: dict[str, Any]) -> bool:
    """Return whether every whole number of an input is from the first to the last of `numbers`."""
    whole = [value for value in given.values() if type(value) is int]
    return len(numbers) < 2 or all(numbers[0] <= value <= numbers[-1] for value in whole)


def _examples(schema: Any) -> dict[str, Any]:
    """Return the first example of each parameter that has one."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    parameters = properties.items() if isinstance(properties, dict) else ()
    return {
        name: one["examples"][0]
        for name, one in parameters
        if isinstance(one, dict) and one.get("examples")
    }


def _rank(tool: ToolPart) -> int:
    if tool.name in FINAL_TOOLS:
        return FINAL_TOOLS.index(tool.name)
    return len(FINAL_TOOLS) + (not _examples(read_json(tool.schema)))
