"""A class that uses methods of its base class behaves the same with the base classes of all three
packages."""

import json
import threading
from typing import Any

import openreward.environments
import ors
import pytest
from pydantic import BaseModel

import environments
from tests.environments.runtime.play import Play, within
from tests.rows import each


class Command(BaseModel):
    command: str


class Box:
    def __init__(self, name: str) -> None:
        self.name = name

    async def run(self, command: str) -> str:
        return f"{self.name} ran {command}"


def migrated(sdk: Any) -> type:
    """Return the same source code for each SDK. `threads` lists the threads on which the prompt was
    made."""

    class Migrated(sdk.Environment):  # type: ignore[misc,name-defined]
        threads: list[int] = []

        @classmethod
        def list_splits(cls) -> Any:
            return ["train"]

        @classmethod
        def list_tasks(cls, split: str) -> Any:
            return [{"id": 1}]

        def get_prompt(self) -> Any:
            self.threads.append(threading.get_ident())
            return [sdk.TextBlock(text="What is it?")]

        def list_task_tools(self) -> Any:
            base = super().list_task_tools()
            extra = sdk.ToolSpec(name="extra", description="", input_schema=None)
            return sdk.ListToolsOutput(tools=[*base.tools, extra])

        @sdk.tool  # type: ignore[untyped-decorator]
        def how(self) -> sdk.ToolOutput:  # type: ignore[name-defined]
            """Name the tools."""
            names = ", ".join(spec.name for spec in self.list_tools().tools)
            return sdk.ToolOutput(blocks=[sdk.TextBlock(text=names)])

        @sdk.tool(shared=False)  # type: ignore[untyped-decorator]
        def extra(self) -> sdk.ToolOutput:  # type: ignore[name-defined]
            """Do nothing; this tool exists only for some tasks."""
            return sdk.ToolOutput(blocks=[sdk.TextBlock(text="extra")])

    return Migrated


def with_more(sdk: Any) -> type:
    """Return a class with features only of openreward.

    These are sandboxes of toolsets, messages made of the prompt, and a terminal tool.
    """

    class Shell(sdk.Toolset):  # type: ignore[misc,name-defined]
        @sdk.tool  # type: ignore[untyped-decorator]
        async def sh(self, args: Command) -> sdk.ToolOutput:  # type: ignore[name-defined]
            """Run it."""
            return sdk.ToolOutput(blocks=[sdk.TextBlock(text=await self.sandbox.run(args.command))])

    class Second(sdk.Toolset):  # type: ignore[misc,name-defined]
        def __init__(self, env: Any) -> None:
            super().__init__(env, sandbox_attr="second")

        @sdk.tool  # type: ignore[untyped-decorator]
        async def sh2(self, args: Command) -> sdk.ToolOutput:  # type: ignore[name-defined]
            """Run it in the second."""
            return sdk.ToolOutput(blocks=[sdk.TextBlock(text=await self.sandbox.run(args.command))])

    class More(migrated(sdk)):  # type: ignore[misc]
        toolsets = (Shell, Second)

        def __init__(self, task_spec: Any = {}, secrets: Any = {}) -> None:
            super().__init__(task_spec, secrets)
            self.sandbox, self.second = Box("sandbox"), Box("second")

        async def get_messages(self) -> Any:
            said = await super().get_messages()
            return [sdk.Message(role="system", blocks=[sdk.TextBlock(text="Be brief.")]), *said]

        @sdk.terminal  # type: ignore[untyped-decorator]
        @sdk.tool  # type: ignore[untyped-decorator]
        async def submit(self, args: Command) -> sdk.ToolOutput:  # type: ignore[name-defined]
            """Grade the message."""
            right = float(args.command == "42")
            return sdk.ToolOutput(
                blocks=[sdk.TextBlock(text="graded")], reward=right, finished=True
            )

    return More


BOTH = [openreward.environments, environments]
ALL = [ors, *BOTH]


@pytest.mark.parametrize("sdk", ALL)
async def test_its_own_task_tools_are_listed_with_those_of_the_base(sdk: Any) -> None:
    async with Play(migrated(sdk)) as play:
        await play.open("s")
        message = json.loads(await within(play.service.task_tools_json("s", "", None)))
    assert [spec["name"] for spec in message["tools"]] == ["how", "extra"]


@pytest.mark.parametrize("sdk", ALL)
async def test_it_lists_its_tools_from_within(sdk: Any) -> None:
    async with Play(migrated(sdk)) as play:
        await play.open("s")
        assert (await play.answer("s", "how")).text == "how"


@pytest.mark.parametrize("sdk", BOTH)
async def test_its_messages_begin_with_its_own_and_end_with_the_prompt(sdk: Any) -> None:
    async with Play(with_more(sdk)) as play:
        await play.open("s")
        messages = json.loads(await within(play.service.messages_json("s", "", None)))
    assert [(one["role"], one["blocks"][0]["text"]) for one in messages] == [
        ("system", "Be brief."),
        ("user", "What is it?"),
    ]


@pytest.mark.parametrize("sdk", BOTH)
async def test_a_plain_prompt_within_its_messages_blocks_no_other_session(sdk: Any) -> None:
    cls: Any = with_more(sdk)
    async with Play(cls) as play:
        await play.open("s")
        await within(play.service.messages_json("s", "", None))
    assert threading.get_ident() not in cls.threads


@each("sdk", BOTH)
@each(("tool", "text"), [("sh", "sandbox ran ls"), ("sh2", "second ran ls")])
async def test_its_toolsets_find_their_sandboxes(sdk: Any, tool: str, text: str) -> None:
    async with Play(with_more(sdk)) as play:
        await play.open("s")
        assert (await play.answer("s", tool, command="ls")).text == text


@pytest.mark.parametrize("sdk", BOTH)
async def test_it_calls_its_terminal_tool_without_a_server(sdk: Any) -> None:
    cls: Any = with_more(sdk)
    assert cls.is_assistant_message_final() and cls.terminal_tool().model_dump() == {
        "name": "submit",
        "arg": "command",
        "description": "Grade the message.",
    }
    made = cls()
    first, second = (
        (await made.call_terminal_tool("42")).root,
        (await made.call_terminal_tool("42")).root,
    )
    assert (first.ok, first.output.reward, second.ok, second.reason) == (
        True,
        1.0,
        False,
        "episode_finished",
    )


@pytest.mark.parametrize("sdk", BOTH)
async def test_without_a_terminal_tool_no_message_is_final(sdk: Any) -> None:
    cls: Any = migrated(sdk)
    assert (cls.is_assistant_message_final(), cls.terminal_tool()) == (False, None)
    with pytest.raises(ValueError, match="has no @terminal tool"):
        await cls().call_terminal_tool("42")


def with_toolset(sdk: Any, constructor: Any) -> type:
    class Signs(sdk.Toolset):  # type: ignore[misc,name-defined]
        @sdk.tool  # type: ignore[untyped-decorator]
        async def wave(self) -> sdk.ToolOutput:  # type: ignore[name-defined]
            """Wave."""
            return sdk.ToolOutput(blocks=[sdk.TextBlock(text="waving")])

    Signs.__init__ = constructor
    return type("Signing", (migrated(sdk),), {"toolsets": (Signs,)})


def _adds_words(self: Any, env: Any) -> None:
    env.task_spec["id"] + "text"


def _takes_nothing(self: Any) -> None: ...
def _may_take(self: Any, env: Any = None, *more: Any) -> None: ...


@pytest.mark.parametrize("sdk", ALL)
async def test_what_a_toolsets_constructor_raises_is_reported(sdk: Any) -> None:
    async with Play(with_toolset(sdk, _adds_words)) as play:
        await play.open("s", spec={"id": 1})
        answer = await play.answer("s", "wave")
    assert (answer.event, answer.data) == (
        "error",
        "unsupported operand type(s) for +: 'int' and 'str'",
    )


@each("sdk", ALL)
@each("constructor", [_takes_nothing, _may_take])
async def test_a_toolset_takes_its_environment_if_it_can(sdk: Any, constructor: Any) -> None:
    async with Play(with_toolset(sdk, constructor)) as play:
        await play.open("s")
        assert (await play.answer("s", "wave")).text == "waving"
