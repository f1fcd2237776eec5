"""What the examples of clients call: one tool of an environment with an input that its schema
allows.

Without a call, a session would be a probe, which no figure counts.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from environments.display import parts
from environments.display.parts import ToolPart, read_json
from environments.models import Environment
from environments.schemas.input_texts import Seen
from environments.schemas.inputs import Inputs, Unproducible
from environments.service import service_or_none

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


def tools_of(environment: Environment) -> list[ToolPart] | None:
    """Return the tools of the environment's class; None if it is not hosted or not described."""
    service = service_or_none()
    hosting = service.registry.find(environment.name) if service else None
    return parts.tools(hosting.tools_json) if hosting and hosting.is_described else None


def example_call(tools: list[ToolPart] | None, task: str = "") -> ExampleCall | None:
    """Return a call of the tool that probably ends an episode, else of one with an example, else of
    the first.

    `task`: the task that the example plays, as one line. A whole number of the call is between the
    first two numbers in it, where that is possible: `low 1 · high 100`. Returns None if there is no
    tool to call.
    """
    texts, numbers = Seen(), list[int]()
    texts.add("42")  # a text that tools for numbers take, too
    in_task = Seen()
    in_task.add(task)
    if len(in_task.numbers) > 1:
        texts.numbers = numbers = sorted(in_task.numbers[:2])
    for tool in sorted(tools or [], key=_rank):
        schema = read_json(tool.schema) or None
        inputs = Inputs(schema, Random(1), texts)  # nosec B311 # an example
        try:
            tries = (inputs.valid() for _ in range(MAX_TRIES))
            fitting = next((input for input in tries if _is_within(numbers, input)), None)
            return ExampleCall(tool.name, (fitting or inputs.valid()) | _examples(schema))
        except Unproducible:
            continue
    return None


def _is_within(numbers: Sequence[int], input: dict[str, Any]) -> bool:
    """Return whether every whole number of an input is from the first to the last of `numbers`."""
    values = [value for value in input.values() if type(value) is int]
    return not numbers or all(numbers[0] <= value <= numbers[-1] for value in values)


def _examples(schema: Any) -> dict[str, Any]:
    """Return the first example of each parameter that has one."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return {}
    return {
        name: parameter["examples"][0]
        for name, parameter in properties.items()
        if isinstance(parameter, dict) and parameter.get("examples")
    }


def _rank(tool: ToolPart) -> int:
    if tool.name in FINAL_TOOLS:
        return FINAL_TOOLS.index(tool.name)
    return len(FINAL_TOOLS) + (not _examples(read_json(tool.schema)))
