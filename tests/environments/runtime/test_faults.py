"""Whatever an author's code does, the agent gets an answer, the step is on record, and the session goes on."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
from ors import ToolOutput as OrsToolOutput
from ors import tool as ors_tool
from pydantic import BaseModel

from environments import Blocks, TextBlock, ToolError, ToolOutput, terminal, tool
from environments.errors import EnvironmentFault, SessionNotFound
from tests import envs_ors
from tests.environments.runtime.play import Play, ended, within
from tests.envs import Echo, FailingConstructor, FailingPrompt, FailingSetup, Raises, TaskTools, Terminal
from tests.envs_base import Small, Text, said
from tests.envs_ors import OrsHidden


@pytest.mark.parametrize(
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
    assert (fault.status, fault.reason, fault.error, fault.output_json) == ("failed", reason, text, None)
    assert (echo.status, echo.index) == ("ok", 1)


@pytest.mark.parametrize(
    ("tool", "text"), [("recoverable", "try the other door"), ("lookup", "KeyError: 'no such door'")]
)
async def test_it_answers_a_recoverable_error(tool: str, text: str) -> None:
    async with Play(Raises) as play:
        await play.open("s")
        assert (await play.answer("s", tool)).body == {"ok": False, "error": text, "reason": "input_validation"}
    assert (play.record.steps[0].status, play.record.steps[0].reason) == ("refused", "tool_error")


@pytest.mark.parametrize("tool", ["nan_reward", "infinite_reward"])
async def test_it_makes_an_endless_reward_null(tool: str) -> None:
    async with Play(Raises) as play:
        await play.open("s")
        assert (await play.answer("s", tool)).body["output"]["reward"] is None
    assert play.record.steps[0].reward is None


async def test_it_makes_nan_in_metadata_null() -> None:
    async with Play(Raises) as play:
        await play.open("s")
        body = (await play.answer("s", "nan_metadata")).body
    assert body["output"]["metadata"] == {"loss": None, "losses": [None, 1.0]}


async def test_it_fills_an_empty_list_of_blocks() -> None:
    async with Play(Raises) as play:
        await play.open("s")
        body = (await play.answer("s", "no_blocks")).body
    assert body["output"]["blocks"] == [{"text": "", "detail": None, "type": "text"}]


@pytest.mark.parametrize("tool", ["surrogate", "nul", "blanks"])
async def test_it_tells_odd_characters_in_ascii(tool: str) -> None:
    async with Play(Raises) as play:
        await play.open("s")
        answer = await play.answer("s", tool)
        assert answer.event == "end" and answer.data.isascii()


class Assigned(BaseModel):
    field: str
    value: Any


class Assigning(Small):
    """Returns an output that was made well and changed afterwards."""

    @tool
    async def assign(self, args: Assigned) -> ToolOutput:
        """Change one field."""
        output = said("as it was", 0.5)
        setattr(output, args.field, args.value)
        return output

    @tool
    async def append(self) -> ToolOutput:
        """Add what is no block."""
        output = said("as it was", 0.5)
        output.blocks.append("just text")  # type: ignore[attr-defined]
        return output


class OrsAssigning(envs_ors.Small):
    """The same, for the reference's base class."""

    @ors_tool
    async def assign(self, args: Assigned) -> OrsToolOutput:
        """Change one field."""
        output = envs_ors.said("as it was", 0.5)
        setattr(output, args.field, args.value)
        return output

    @ors_tool
    async def append(self) -> OrsToolOutput:
        """Add what is no block."""
        output = envs_ors.said("as it was", 0.5)
        output.blocks.append("just text")
        return output


@pytest.mark.parametrize("environment", [Assigning, OrsAssigning])
@pytest.mark.parametrize(
    ("field", "value"),
    [("blocks", "just text"), ("metadata", "words"), ("reward", "many"), ("finished", "perhaps"), ("finished", None)],
)
async def test_an_output_that_was_changed_into_none_is_a_fault_and_ends_nothing(
    environment: type, field: str, value: Any
) -> None:
    async with Play(environment) as play:
        await play.open("s")
        answer = await play.answer("s", "assign", field=field, value=value)
        assert answer.event == "error" and f"'assign' returned a ToolOutput that was changed into none ({field}" in (
            answer.data
        )
        assert (await play.answer("s", "append")).event == "error"
        assert (await play.answer("s", "assign", field="reward", value=1)).body["output"]["reward"] == 1.0
    assert [step.status for step in play.record.steps] == ["failed", "failed", "ok"]


@pytest.mark.parametrize(("field", "value", "kept"), [("reward", "0.5", 0.5), ("finished", "no", False)])
async def test_what_was_assigned_is_read_as_the_constructor_would(field: str, value: str, kept: Any) -> None:
    async with Play(Assigning) as play:
        await play.open("s")
        for _ in range(2):
            assert (await play.answer("s", "assign", field=field, value=value)).body["output"][field] == kept


async def test_an_output_that_has_no_json_form_ends_nothing() -> None:
    async with Play(Raises) as play:
        await play.open("s")
        assert (await play.answer("s", "unserialisable")).event == "error"
        assert (await play.answer("s", "echo", text="still here")).text == "still here"


async def test_a_result_over_the_limit_is_a_failure_that_names_it() -> None:
    async with Play(Raises, max_result_bytes=5000) as play:
        await play.open("s")
        answer = await play.answer("s", "huge", size_bytes=6000)
        assert answer.event == "error" and "ORSWEB_MAX_RESULT_BYTES allows 5000" in answer.data


async def test_a_long_error_is_cut() -> None:
    async with Play(Raises) as play:
        await play.open("s")
        assert len((await play.answer("s", "long_fault")).data) == 16_000


@pytest.mark.parametrize(
    ("tool", "arguments"), [("echo", {"text": ["x" * 100_000]}), ("x" * 100_000, {})], ids=["input", "tool"]
)
async def test_a_long_refusal_is_cut(tool: str, arguments: dict[str, Any]) -> None:
    async with Play(Raises) as play:
        await play.open("s")
        assert len((await play.answer("s", tool, **arguments)).body["error"]) <= 16_000


async def test_wrong_input_is_refused_with_the_clients_known_words() -> None:
    async with Play(Raises) as play:
        await play.open("s")
        body = (await play.answer("s", "echo", text=5)).body
    assert body["error"].startswith("Tool input validation error: [{'type': 'string_type', 'loc': ('text',)")
    assert body["reason"] == "input_validation"


class Votes(BaseModel):
    votes: list[int]


class Tally(Small):
    @tool
    async def tally(self, args: Votes) -> ToolOutput:
        """Add up."""
        return said(str(sum(args.votes)))


async def test_a_million_wrong_values_hold_nobody_up() -> None:
    async with Play(Tally) as play:
        await play.open("s")
        started = asyncio.get_running_loop().time()
        body = (await play.answer("s", "tally", votes=["x"] * 1_000_000)).body
        assert body["error"] == "Tool input validation error: [1000000 problems]"
        assert asyncio.get_running_loop().time() - started < 5


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


@pytest.mark.parametrize(
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
async def test_it_names_the_tools_that_the_session_was_told_of(
    environment: type, spec: dict[str, Any], asks: bool, known: str
) -> None:
    async with Play(environment) as play:
        await play.open("s", spec=spec)
        if asks:
            await within(play.service.task_tools_json("s", "", None))
        told = (await play.answer("s", "nope")).body["error"]
    assert told == f"'nope' is not a valid tool; this session has{known}"


@pytest.mark.parametrize("name", ["task_spec", "__init__", "setup", "log_size", ""])
async def test_an_attribute_that_is_no_tool_is_never_touched(name: str) -> None:
    class Trap(Echo):
        @property
        def log_size(self) -> int:
            raise AssertionError("executed")

    async with Play(Trap) as play:
        await play.open("s")
        assert (await play.answer("s", name)).body["reason"] == "not_found"


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
    assert (play.record.end.cause, play.record.end.detail) == ("setup_failed", "RuntimeError: the constructor gave up")


async def test_a_failed_setup_is_told_to_every_request() -> None:
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


class Deep(Small):
    @tool
    async def dig(self, args: Text) -> ToolOutput:
        """Metadata nested as deeply as the text is long."""
        nested: Any = args.text
        for _ in args.text:
            nested = [nested]
        return said("deep", nested=nested)


@pytest.mark.parametrize("depth", [100, 250, 400, 900, 5000])
async def test_deeply_nested_metadata_is_always_answered(depth: int) -> None:
    async with Play(Deep) as play:
        await play.open("s", masked=("x" * 8,))
        await play.answer("s", "dig", text="x" * depth)
        assert [step.index for step in play.record.steps] == [0]


@pytest.mark.parametrize("leaf", ["text", float("nan"), "secret-value"])
@pytest.mark.parametrize("depth", [100, 400, 900])
async def test_deeply_nested_input_is_always_answered(depth: int, leaf: Any) -> None:
    for _ in range(depth):
        leaf = [leaf]
    async with Play(Echo) as play:
        await play.open("s", masked=("secret-value",))
        assert (await play.answer("s", "echo", text="x", more=leaf)).event
        assert len(play.record.steps) == 1


async def test_another_session_does_not_notice() -> None:
    async with Play(Raises) as play:
        await play.open("a")
        await play.open("b")
        await play.answer("a", "cancelled")
        await play.service.delete("a", "")
        with pytest.raises(SessionNotFound):
            await play.start("a", "echo", text="x")
        assert (await play.answer("b", "echo", text="x")).text == "x"


async def test_what_a_tool_raises_after_its_time_is_logged_by_nobody() -> None:
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

    gone, told = asyncio.Event(), list[dict[str, Any]]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    async with Play(Late, tool_timeout_seconds=0.02) as play:
        await play.open("s")
        assert "ran longer than 0.02 s" in (await play.answer("s", "wait")).data
        await within(gone.wait())
        await asyncio.sleep(0)
    gc.collect()
    assert told == []
