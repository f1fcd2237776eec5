"""An environment whose tools have names and schemas that the APIs of models refuse."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, RootModel

from environments import ToolOutput, tool
from tests.envs_base import Small, said


class Pebble(BaseModel):
    kind: Literal["pebble"]
    grams: int


class Shell(BaseModel):
    kind: Literal["shell"]
    colour: str


class Find(RootModel[Pebble | Shell]):
    """A root that is a union."""


LISTED_TYPES = {
    "type": "object",
    "properties": {"k": {"type": ["integer", "null"], "enum": [1, None]}},
}
UNUSUAL = {
    "type": "object",
    "anyOf": [LISTED_TYPES, {"properties": {"k": {"type": ["string"], "const": "x"}}}],
}
CIRCULAR = {"type": "object", "anyOf": [{"$ref": "#"}] * 60, "oneOf": [{"$ref": "#"}] * 2}


class OddTools(Small):
    @tool
    async def größe(self, params: Find) -> ToolOutput:
        """Tell what was picked up."""
        return said(params.root.kind)

    @tool(input_schema=UNUSUAL)
    async def unusual(self, params: dict[str, Any]) -> ToolOutput:
        """Have a schema whose types are lists."""
        return said(str(params))

    @tool(input_schema=CIRCULAR)
    async def circular(self, params: dict[str, Any]) -> ToolOutput:
        """Have a schema that refers to itself again and again."""
        return said(str(params))
