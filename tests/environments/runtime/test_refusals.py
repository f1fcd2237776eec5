"""An agent's mistakes are answered briefly and recorded as refused."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from environments import ToolOutput, terminal, tool
from tests.environments.runtime.play import Play, within
from tests.envs import Echo, Raises, TaskTools, Terminal
from tests.envs_base import Small, Text, said
from tests.envs_ors import OrsHidden
from tests.rows import each


@pytest.mark.parametrize(
    ("tool", "text"),
    [("recoverable", "try the other door"), ("lookup", "KeyError: 'no such door'")],
)
async def test_it_answers_a_recoverable_error(tool: str, text: str) -> None:
    async with Play(Raises) as play:
        await play.open("s")
        assert (await play.answer("s", tool)).body == {
            "ok": False,
            "error": text,
            "reason": "input_validation",
        }
    assert (play.record.steps[0].status, play.record.steps[0].reason) == ("refused", "tool_error")


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("echo", {"text": ["x" * 100_000]}), ("x" * 100_000, {})],
    ids=["input", "tool"],
)
async def test_a_long_refusal_is_cut(tool: str, arguments: dict[str, Any]) -> None:
    async with Play(Raises) as play:
        await play.open("s")
        assert len((await play.answer("s", tool, **arguments)).body["error"]) <= 32_000


async def test_wrong_input_is_refused_with_the_clients_known_words() -> None:
    async with Play(Raises) as play:
        await play.open("s")
        body = (await play.answer("s", "echo", text=5)).body
    assert body["error"].startswith(
        "Tool input validation error: [{'type': 'string_type', 'loc': ('text',)"
    )
    assert body["reason"] == "input_validation"


class Votes(BaseModel):
    votes: list[int]


class Tally(Small):
    @tool
    async def tally(self, args: Votes) -> ToolOutput:
        """Add up."""
        return said(str(sum(args.votes)))


async def test_very_many_wrong_values_are_only_counted() -> None:
    """Listing a million would hold up all other sessions for two seconds."""
    async with Play(Tally) as play:
        await play.open("s")
        body = (await play.answer("s", "tally", votes=["x"] * 100_000)).body
        assert body["error"] == "Tool input validation error: [100000 problems]"


@each("leaf", ["text", float("nan"), "secret-value"])
@each("depth", [100, 400, 900])
async def test_deeply_nested_input_is_always_answered(depth: int, leaf: Any) -> None:
    for _ in range(depth):
        leaf = [leaf]
    async with Play(Echo) as play:
        await play.open("s", masked_texts=("secret-value",))
        assert (await play.answer("s", "echo", text="x", more=leaf)).event
        assert len(play.record.steps) == 1


class OnlyTerminal(Small):
    """Nothing to call but the final message."""

    @terminal
    @tool
    async def submit(self, args: Text) -> ToolOutput:
        """Grade the final message."""
        return said("graded", 1.0, finished=True)


async def test_an_unknown_tool_is_refused_naming_those_there_are() -> None:
    async with Play(Echo) as play:
        await play.open("s")
        body = (await play.answer("s", "ehco")).body
    assert body == {
        "ok": False,
        "error": "'ehco' is not a valid tool; this session has: echo, finish",
        "reason": "not_found",
    }


@each(
    ("environment", "spec", "asks", "known"),
    [
        (Terminal, {}, False, ": look"),
        (Terminal, {}, True, ": look"),
        (OrsHidden, {}, False, ": dig, look"),
        (TaskTools, {"tools": ["dig"]}, False, ": look"),
        (TaskTools, {"tools": ["dig"]}, True, ": dig, look"),
        (TaskTools, {"tools": ["fly"]}, True, ": look"),
        (OnlyTerminal, {}, False, " no tools"),
    ],
)
async def test_it_names_the_tools_that_the_session_received(
    environment: type, spec: dict[str, Any], asks: bool, known: str
) -> None:
    async with Play(environment) as play:
        await play.open("s", spec=spec)
        if asks:
            await within(play.service.task_tools_json("s", "", None))
        message = (await play.answer("s", "nope")).body["error"]
    assert message == f"'nope' is not a valid tool; this session has{known}"


@each("name", ["task_spec", "__init__", "setup", "log_size", ""])
async def test_an_attribute_that_is_no_tool_is_never_touched(name: str) -> None:
    class Trap(Echo):
        @property
        def log_size(self) -> int:
            raise AssertionError("executed")

    async with Play(Trap) as play:
        await play.open("s")
        assert (await play.answer("s", name)).body["reason"] == "not_found"
