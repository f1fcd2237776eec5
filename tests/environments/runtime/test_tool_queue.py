"""Which tool calls of an instance overlap, shown by the order in which they start and end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from environments.authoring.tools import Tool
from environments.runtime.call_table import Call
from environments.runtime.tool_queue import ToolQueue
from environments.wire import ToolSpec
from tests.environments.runtime.play import Play, ended, until, within
from tests.envs import GATES, PASSED, Gated, Terminal


@pytest.fixture
async def play() -> AsyncIterator[Play]:
    GATES.clear()
    PASSED.clear()
    async with Play(Gated) as running:
        await running.open("s")
        yield running
        for gate in GATES.values():
            gate.set()


async def started(play: Play, tool: str, gate: str) -> Call:
    """Return a call that has entered its tool."""
    call = await play.start("s", tool, gate=gate)
    await until(lambda: f"{tool} {gate} starts" in PASSED)
    return call


async def settled() -> None:
    """Let everything that can run, run."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_calls_of_one_tool_run_one_after_another(play: Play) -> None:
    first = await started(play, "hold", "a")
    second = await play.start("s", "hold", gate="")
    await settled()
    assert PASSED == ["hold a starts"]
    GATES["a"].set()
    await asyncio.gather(ended(first), ended(second))
    assert PASSED == ["hold a starts", "hold a ends", "hold  starts", "hold  ends"]


async def test_another_tool_does_not_wait(play: Play) -> None:
    await started(play, "hold", "a")
    assert (await play.answer("s", "other", gate="")).event == "end"
    assert "hold a ends" not in PASSED


async def test_concurrent_calls_overlap(play: Play) -> None:
    await started(play, "glance", "a")
    await started(play, "glance", "b")
    assert PASSED == ["glance a starts", "glance b starts"]


async def test_an_exclusive_call_waits_for_all_and_holds_back_the_rest(play: Play) -> None:
    await started(play, "hold", "a")
    await started(play, "glance", "b")
    grade = await play.start("s", "grade", gate="")
    late = await play.start("s", "glance", gate="")
    GATES["b"].set()
    await until(lambda: "glance b ends" in PASSED)
    await settled()
    assert "grade  starts" not in PASSED and "glance  starts" not in PASSED
    GATES["a"].set()
    assert (await ended(grade)).body["output"]["finished"] is True
    assert (await ended(late)).body["reason"] == "episode_finished"


async def test_nothing_starts_during_an_exclusive_call(play: Play) -> None:
    await started(play, "grade", "a")
    call = await play.start("s", "glance", gate="b")
    await settled()
    assert PASSED == ["grade a starts"] and call.result is None


async def test_a_call_that_waited_reports_it(play: Play) -> None:
    first = await started(play, "hold", "a")
    second = await play.start("s", "hold", gate="")
    await asyncio.sleep(0.03)
    GATES["a"].set()
    await asyncio.gather(ended(first), ended(second))
    waits = [step.waited_ms for step in play.record.steps]
    assert waits[0] < 20 <= waits[1]


async def test_a_terminal_tool_runs_alone_though_marked_so_only_by_terminal() -> None:
    async with Play(Terminal) as play:
        await play.open("s")
        assert play.service.registry.default.tools.by_name["submit"].runs_alone


# --- ToolQueue itself, where a session could not be stopped at the right moment -------------------


def a_tool(name: str, *, concurrent: bool = False, alone: bool = False) -> Tool:
    spec = ToolSpec(name=name, description="", input_schema=None)
    return Tool(name, spec, concurrent=concurrent, runs_alone=alone)


async def test_it_lets_in_first_come_first_served() -> None:
    turns, tool, order = ToolQueue(), a_tool("x"), list[int]()

    async def pass_through(number: int) -> None:
        await turns.enter(tool)
        order.append(number)
        await asyncio.sleep(0)
        turns.leave(tool)

    await asyncio.gather(*(pass_through(number) for number in range(20)))
    assert order == list(range(20))


async def test_a_cancelled_waiter_makes_way() -> None:
    turns, ordinary, lone = ToolQueue(), a_tool("x"), a_tool("alone", alone=True)
    await turns.enter(ordinary)
    waiting = asyncio.ensure_future(turns.enter(lone))
    held_back = asyncio.ensure_future(turns.enter(a_tool("y")))
    await settled()
    assert not held_back.done()
    waiting.cancel()
    await within(held_back)


async def test_a_waiter_that_is_cancelled_as_its_turn_comes_passes_it_on() -> None:
    turns, tool = ToolQueue(), a_tool("x")
    await turns.enter(tool)
    first, second = (
        asyncio.ensure_future(turns.enter(tool)),
        asyncio.ensure_future(turns.enter(tool)),
    )
    await settled()
    turns.leave(tool)
    first.cancel()
    await within(second)
    assert first.cancelled() and second.done()


async def test_equal_tools_that_wait_are_not_mistaken_for_each_other() -> None:
    turns, tool = ToolQueue(), a_tool("x")
    await turns.enter(tool)
    waiting = [asyncio.ensure_future(turns.enter(a_tool("x"))) for _ in range(3)]
    await settled()
    waiting[1].cancel()
    for turn in (waiting[0], waiting[2]):
        turns.leave(tool)
        await within(turn)
    assert [turn.cancelled() for turn in waiting] == [False, True, False]
