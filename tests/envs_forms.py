"""An environment whose tools use almost every feature of JSON Schema and return their input."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from environments import ToolOutput, tool
from tests.envs_base import Small, said


class Circle(BaseModel):
    kind: Literal["circle"]
    radius: float = Field(gt=0)


class Box(BaseModel):
    """It has four corners."""

    kind: Literal["box"]
    width: float
    height: float


class Branch(BaseModel):
    """A branch of a tree, with what grows on it."""

    name: str
    branches: list[Branch] = []


class Order(BaseModel):
    name: str = Field(min_length=1, max_length=40, description="Who orders.", examples=["Ada"])
    amount: int = Field(ge=1, le=10**30, description="How many.")
    colour: Literal["red", "green", "blue"]
    country: Literal["Austria", "Belgium", "Chile", "Denmark", "Estonia", "Finland", "Ghana"] = (
        "Chile"
    )
    is_urgent: bool = False
    note: str | None = Field(None, description="Left out, null and empty are three things.")
    code: str | int = Field(description="Digits, or a text.")
    tags: list[str] = Field(min_length=1, max_length=4)
    shape: Annotated[Circle | Box, Field(discriminator="kind")]
    tree: Branch
    labels: dict[str, int]
    program: str = "print(1)\nprint(2)\n"


class Lone(BaseModel):
    text: str


class Forms(Small):
    """Tools that answer with their input as JSON."""

    @tool
    async def order(self, args: Order) -> ToolOutput:
        """Order something."""
        return said(args.model_dump_json(exclude_unset=True), 0.0)

    @tool
    async def say(self, args: Lone) -> ToolOutput:
        """Say something."""
        return said(args.model_dump_json(), 0.0)

    @tool
    async def wait(self) -> ToolOutput:
        """Do nothing."""
        return said("nothing", 0.0)
