"""Whatever an author's code does, the agent gets an answer, the step is recorded, and the session
continues."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from environments import Blocks, TextBlock, ToolError, ToolOutput, tool
from environments.errors import EnvironmentFault, SessionNotFound
from tests.environments.runtime.play import Play, ended, within
from tests.envs import FailingConstructor, FailingPrompt, FailingSetup, Raises
from tests.envs_base import Small, Text, said
from tests.rows import each


@each(
    ("tool", "text", "reason"),
    [
        ("fault", "the valve is stuck", "RuntimeError"),
        ("sync_fault", "the valve is stuck", "RuntimeError"),
        ("silent_fault", "ValueError", "ValueError"),
        ("cancelled", "CancelledError", "CancelledError"),
        ("sync_cancelled", "CancelledError", "CancelledError"),
        ("leaves", "3", "SystemExit"),
        ("stops", "over", "StopIteration"),
        ("wrong_type", "'wrong_type' returned str; expected ToolOutput", "TypeError"),
        ("nothing", "'nothing' returned NoneType; expected ToolOutput", "TypeError"),
    ],
)
async def test_it_tells_a_fault_and_goes_on(tool: str, text: str, reason: str) -> None:
    async with Play(Raises) as play:
        await play.open("s")
        answer = await play.answer("s", tool)
        assert (answer.event, answer.data) == ("error", text)
        assert (await play.answer("s", "echo", text="alive")).text == "alive"
    fault, echo = play.record.steps
    assert (fault.status, fault.reason, fault.error, fault.output_json) == (
        "failed",
        reason,
        text,
        None,
    )
    assert (echo.status, echo.index) == ("ok", 1)


async def test_a_long_error_is_cut() -> None:
    async with Play(Raises) as play:
        await play.open("s")
        assert len((await play.answer("s", "long_fault")).data) == 32_000


class Careless(Small):
    """Raises ToolError where only tools may."""

    def __init__(self, task_spec: Any = {}, secrets: dict[str, str] = {}) -> None:
        super().__init__(task_spec, secrets)
        self._maybe("constructor")

    def setup(self) -> None:
        self._maybe("setup")

    def get_prompt(self) -> Blocks:
        self._maybe("prompt")
        return [TextBlock(text="")]

    def teardown(self) -> None:
        self._maybe("teardown")

    def _maybe(self, where: str) -> None:
        if self.task_spec.get("where") == where:
            raise ToolError(f"from the {where}")

    @tool
    async def echo(self, args: Text) -> ToolOutput:
        """Say it again."""
        return said(args.text)


async def test_a_tool_error_in_setup_is_a_fault_of_the_environment() -> None:
    async with Play(Careless) as play:
        await play.open("s", spec={"where": "setup"})
        assert await within(ended(await play.start("s", "echo", text="x")))
    assert play.record.end.cause == "setup_failed"


async def test_a_tool_error_in_the_constructor_is_a_fault_of_the_environment() -> None:
    async with Play(Careless) as play:
        with pytest.raises(EnvironmentFault, match="ToolError: from the constructor"):
            await play.open("s", spec={"where": "constructor"})


async def test_a_tool_error_in_the_prompt_is_a_fault_of_the_environment() -> None:
    async with Play(Careless) as play:
        await play.open("s", spec={"where": "prompt"})
        with pytest.raises(EnvironmentFault, match="ToolError: from the prompt"):
            await within(play.service.prompt_json("s", "", None))


async def test_a_tool_error_in_teardown_does_not_hold_up_the_delete() -> None:
    async with Play(Careless) as play:
        await play.open("s", spec={"where": "teardown"})
        await within(play.service.delete("s", ""))
        assert play.service.live_sessions == 0


async def test_a_failing_constructor_leaves_no_session_and_is_on_record() -> None:
    async with Play(FailingConstructor) as play:
        with pytest.raises(EnvironmentFault, match="RuntimeError: the constructor gave up"):
            await play.open("s")
        assert play.service.live_sessions == 0
    assert (play.record.end.cause, play.record.end.detail) == (
        "setup_failed",
        "RuntimeError: the constructor gave up",
    )


async def test_a_failed_setup_is_reported_to_every_request() -> None:
    async with Play(FailingSetup) as play:
        await play.open("s")
        for _ in range(2):
            with pytest.raises(EnvironmentFault, match="RuntimeError: the setup gave up"):
                await within(play.service.prompt_json("s", "", None))


async def test_a_failed_prompt_leaves_the_session_alive() -> None:
    async with Play(FailingPrompt) as play:
        await play.open("s")
        with pytest.raises(EnvironmentFault, match="RuntimeError: the prompt gave up"):
            await within(play.service.prompt_json("s", "", None))
        assert (await play.answer("s", "finish")).event == "end"


class AsyncDeath(Small):
    @tool
    async def leaves(self) -> ToolOutput:
        """Call sys.exit() on the loop."""
        raise SystemExit(3)

    @tool
    async def interrupts(self) -> ToolOutput:
        """Raise what Ctrl-C raises."""
        raise KeyboardInterrupt

    @tool
    async def cancels_a_friend(self) -> ToolOutput:
        """Await something that somebody else cancels."""
        friend = asyncio.get_running_loop().create_future()
        friend.cancel()
        await friend
        return said("never")


@pytest.mark.parametrize("tool", ["leaves", "interrupts", "cancels_a_friend"])
async def test_async_code_cannot_take_the_server_down(tool: str) -> None:
    async with Play(AsyncDeath) as play:
        await play.open("s")
        assert (await play.answer("s", tool)).event == "error"
        assert play.record.steps[0].status == "failed"


async def test_another_session_does_not_notice() -> None:
    async with Play(Raises) as play:
        await play.open("a")
        await play.open("b")
        await play.answer("a", "cancelled")
        await play.service.delete("a", "")
        with pytest.raises(SessionNotFound):
            await play.start("a", "echo", text="x")
        assert (await play.answer("b", "echo", text="x")).text == "x"


async def test_what_a_tool_raises_after_its_timeout_is_not_logged() -> None:
    class Late(Small):
        @tool
        async def wait(self) -> ToolOutput:
            """Swallow the cancellation, and raise."""
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await asyncio.sleep(0)
            gone.set()
            raise RuntimeError("bad token")

    gone, message = asyncio.Event(), list[dict[str, Any]]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: message.append(context))
    async with Play(Late, tool_timeout_seconds=0.02) as play:
        await play.open("s")
        assert "ran longer than 0.02 s" in (await play.answer("s", "wait")).data
        await within(gone.wait())
        await asyncio.sleep(0)
    gc.collect()
    assert message == []
