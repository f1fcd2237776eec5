"""An environment whose tool has a name and a schema that the APIs of models refuse."""

from __future__ import annotations

from typing import Literal

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


class OddTools(Small):
    @tool
    async def größe(self, params: Find) -> ToolOutput:
        """Tell what was picked up."""
        return said(params.root.kind)
