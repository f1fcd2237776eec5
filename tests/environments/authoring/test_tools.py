"""The search for tools in a class."""

import functools
from functools import cached_property
from typing import Any

import pytest
from pydantic import BaseModel

from environments import ToolOutput, ToolSpec, terminal, tool
from environments.authoring.direct_calls import call_tool
from environments.authoring.tools import Tool, ToolTable, find_tools
from environments.errors import Unhostable
from tests.environments.runtime.play import Play
from tests.envs import MOVES, Gated, Schematic, TaskTools, Terminal, Toolsetted
from tests.envs_base import Text, said
from tests.rows import each


def table(cls: type, *toolsets: type) -> ToolTable:
    return find_tools(cls, toolsets, ToolOutput)


def only(cls: type) -> Tool:
    [found] = table(cls).by_name.values()
    return found


def test_it_describes_a_tool_by_docstring_and_schema() -> None:
    class One:
        @tool
        async def speak(self, args: Text) -> ToolOutput:
            """Say it.

            Loudly.
            """
            return said("")

    spec = only(One).spec
    assert (spec.name, spec.description.split()) == ("speak", ["Say", "it.", "Loudly."])
    assert spec.input_schema == Text.model_json_schema()


def test_it_gives_a_tool_without_parameter_no_schema() -> None:
    class One:
        @tool
        def go(self) -> ToolOutput:
            return said("")

    found = only(One)
    assert (found.spec.input_schema, found.input_model, found.spec.description) == (None, None, "")


def test_it_lists_tools_in_alphabetical_order_and_toolsets_after() -> None:
    found = table(Toolsetted, *Toolsetted.toolsets)
    assert [spec.name for spec in found.shared] == ["own", "add", "wave"]


def test_it_never_executes_a_property() -> None:
    class Trap:
        @property
        def trap(self) -> None:
            raise AssertionError("executed")

        @functools.cached_property
        def other(self) -> None:
            raise AssertionError("executed")

        @tool
        def go(self) -> ToolOutput:
            return said("")

    assert list(table(Trap).by_name) == ["go"]


def test_it_ignores_a_property_whose_getter_is_marked() -> None:
    class Trap:
        @property
        @tool
        def trap(self) -> ToolOutput:
            raise AssertionError("executed")

    assert table(Trap).by_name == {}


def _no_return(self: Any) -> None: ...
def _other_return(self: Any) -> str: ...  # type: ignore[empty-body]
def _no_annotation(self: Any, args): ...  # type: ignore[no-untyped-def]
def _plain_parameter(self: Any, text: str) -> ToolOutput: ...  # type: ignore[empty-body]
def _bare_parameter(self: Any, text) -> ToolOutput: ...  # type: ignore[no-untyped-def,empty-body]
def _two_parameters(self: Any, one: Text, two: Text) -> ToolOutput: ...  # type: ignore[empty-body]


def _optional_parameter(self: Any, args: Text | None) -> ToolOutput: ...  # type: ignore[empty-body]


@each(
    ("method", "reason"),
    [
        (_no_return, "it returns None, not environments.wire.ToolOutput"),
        (_other_return, "it returns str, not environments.wire.ToolOutput"),
        (_no_annotation, "it lacks `-> ToolOutput`"),
        (_plain_parameter, "its parameter text is str; it must be a pydantic model"),
        (_bare_parameter, "its parameter text has no annotation; it must be a pydantic model"),
        (
            _optional_parameter,
            "its parameter args is tests.envs_base.Text | None; it must be a pydantic model",
        ),
        (_two_parameters, "it takes 2 parameters; take one pydantic model or nothing"),
    ],
)
def test_it_leaves_out_another_signature_and_says_why(method: Any, reason: str) -> None:
    found = table(type("Odd", (), {"odd": tool(method)}))
    assert (found.by_name, found.skipped) == ({}, {"Odd.odd": reason})


def _go(self: Any) -> ToolOutput: ...  # type: ignore[empty-body]


@each(
    ("marked", "reason"),
    [
        (tool(staticmethod(_go)), "@tool is above @staticmethod; put it below"),
        (tool(classmethod(_go)), "@tool is above @classmethod; put it below"),
        (property(tool(lambda self: _go(self))), "it is a property; make it a method"),
        (cached_property(tool(lambda self: _go(self))), "it is a property; make it a method"),
        (tool(cached_property(_go)), "it is a property; make it a method"),
    ],
)
def test_it_says_why_what_is_no_function_is_left_out(marked: Any, reason: str) -> None:
    found = table(type("Odd", (), {"odd": marked}))
    assert (found.by_name, found.skipped) == ({}, {"Odd.odd": reason})


def test_a_property_cannot_be_marked() -> None:
    with pytest.raises(TypeError, match="@tool marks a method, not a property; remove @property"):
        tool(property(_go))


def test_it_says_why_a_method_of_a_toolset_is_left_out() -> None:
    toolset = type("Signs", (), {"odd": tool(_two_parameters)})
    assert list(table(Terminal, toolset).skipped) == ["Signs.odd"]


def test_it_finds_static_and_class_methods() -> None:
    class Mixed:
        @staticmethod
        @tool
        def fixed(args: Text) -> ToolOutput:
            return said(args.text)

        @classmethod
        @tool
        def common(cls, args: Text) -> ToolOutput:
            return said(args.text)

    assert [found.input_model for found in table(Mixed).by_name.values()] == [Text, Text]


def test_it_finds_a_tool_under_a_wrapping_decorator() -> None:
    def logged(function: Any) -> Any:
        @functools.wraps(function)
        async def wrapper(*args: Any) -> Any:
            return await function(*args)

        return wrapper

    class One:
        @logged
        @tool
        async def speak(self, args: Text) -> ToolOutput:
            return said(args.text)

    assert only(One).input_model is Text


def test_it_finds_inherited_tools_and_respects_an_override_without_mark() -> None:
    class Fewer(Gated):
        hold = None  # type: ignore[assignment]

    assert sorted(table(Fewer).by_name) == ["block", "glance", "grade", "other"]


def test_it_keeps_task_specific_tools_out_of_the_shared_ones() -> None:
    found = table(TaskTools)
    assert ([s.name for s in found.shared], [s.name for s in found.task_specific]) == (
        ["look"],
        ["dig"],
    )


@each(
    ("name", "concurrent", "runs_alone"),
    [
        ("hold", False, False),
        ("glance", True, False),
        ("grade", False, True),
        ("block", False, False),
    ],
)
def test_it_reads_the_marks(name: str, concurrent: bool, runs_alone: bool) -> None:
    found = table(Gated).by_name[name]
    assert (found.concurrent, found.runs_alone) == (concurrent, runs_alone)


def test_it_lets_exclusive_win_over_concurrent() -> None:
    class One:
        @tool(concurrent=True, exclusive=True)
        def go(self) -> ToolOutput:
            return said("")

    assert (only(One).concurrent, only(One).runs_alone) == (False, True)


def test_it_notes_a_name_in_both_class_and_toolset() -> None:
    assert table(Toolsetted, Toolsetted).collisions == {
        name: "Toolsetted" for name in table(Toolsetted).by_name
    }


def test_it_lets_the_first_toolset_have_a_shared_name() -> None:
    class First:
        @tool
        def go(self) -> ToolOutput:
            return said("first")

    class Second(First):
        pass

    found = table(Terminal, First, Second)
    assert (found.by_name["go"].toolset, found.collisions) == (First, {})


# --- the terminal tool ----------------------------------------------------------------------------


def test_it_hides_the_terminal_tool_and_describes_it_apart() -> None:
    found = table(Terminal)
    assert [spec.name for spec in found.shared] == ["look"]
    assert found.terminal is not None
    assert found.terminal.model_dump() == {
        "name": "submit",
        "arg": "text",
        "description": "Grade the final message.",
    }
    assert found.by_name["submit"].runs_alone


def test_it_takes_a_terminal_tool_without_parameter_and_in_either_order() -> None:
    class End:
        @tool
        @terminal
        def end(self) -> ToolOutput:
            return said("")

    ending = table(End).terminal
    assert ending is not None and (ending.name, ending.arg) == ("end", None)


class Pair(BaseModel):
    one: str
    two: str


def _untooled(self: Any) -> ToolOutput: ...  # type: ignore[empty-body]
def _two_fields(self: Any, args: Pair) -> ToolOutput: ...  # type: ignore[empty-body]


@each(
    ("methods", "sentence"),
    [
        ({"end": terminal(_untooled)}, "end is not a tool: add @tool"),
        ({"end": terminal(tool(_two_fields))}, "one field, not 2 (one, two)"),
        ({"end": terminal(tool(concurrent=True)(lambda self: None))}, "end is not a tool"),
        (
            {"a": Terminal.submit, "b": Terminal.submit},
            "several @terminal tools (a, b); keep at most one",
        ),
    ],
)
def test_it_refuses_a_malformed_terminal_tool(methods: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Unhostable, match=r".*") as caught:
        table(type("Odd", (), methods))
    assert sentence in str(caught.value)


def test_it_refuses_a_concurrent_terminal_tool() -> None:
    class End:
        @terminal
        @tool(concurrent=True)
        def end(self) -> ToolOutput:
            return said("")

    with pytest.raises(Unhostable, match=r"End\.end cannot be concurrent"):
        table(End)


def test_it_refuses_a_second_terminal_tool_in_a_toolset() -> None:
    class Ender:
        @terminal
        @tool
        def end(self) -> ToolOutput:
            return said("")

    with pytest.raises(Unhostable, match="several @terminal tools"):
        table(Terminal, Ender)


# --- declared by a JSON Schema --------------------------------------------------------------------


async def test_a_tool_can_be_declared_by_a_json_schema() -> None:
    assert table(Schematic).shared == [
        ToolSpec(name="move", description="Move on.", input_schema=MOVES)
    ]
    answer = (await call_tool(Schematic({}), only(Schematic), {"way": "up", "steps": 2})).root
    assert (
        answer.ok
        and answer.output.blocks[0].model_dump()["text"] == "moved {'way': 'up', 'steps': 2}"
    )


@each(
    ("arguments", "problem"),
    [
        ({}, "$: 'way' is a required property"),
        ({"way": "left"}, "$.way: 'left' is not one of ['up', 'down']"),
        ({"way": "up", "steps": 4}, "$.steps: 4 is greater than the maximum of 3"),
        ({"way": "up", "steps": "9" * 999}, "$.steps: the value is not of type 'integer'"),
        (
            {"way": "up", "colour": 1},
            "$: Additional properties are not allowed ('colour' was unexpected)",
        ),
    ],
)
async def test_inputs_that_the_schema_forbids_are_refused(
    arguments: dict[str, Any], problem: str
) -> None:
    answer = (await call_tool(Schematic({}), only(Schematic), arguments)).root
    assert not answer.ok and answer.reason == "input_validation"
    assert answer.error == f"Tool input validation error: {problem}"


async def test_a_server_refuses_what_the_schema_forbids() -> None:
    async with Play(Schematic) as play:
        await play.open("s")
        assert (await play.answer("s", "move", way="down")).text == "moved {'way': 'down'}"
        refused = (await play.answer("s", "move", way="left")).body
        assert (refused["ok"], refused["reason"]) == (False, "input_validation")
        assert (
            refused["error"]
            == "Tool input validation error: $.way: 'left' is not one of ['up', 'down']"
        )


@each(
    ("schema", "sentence"),
    [
        (
            {"type": "object", "properties": 5},
            "Odd.go: input_schema is not a JSON Schema: 5 is not of type 'object'.",
        ),
        ({"type": "string"}, "Odd.go: input_schema has the type 'string'; it has to be 'object'."),
        ([1], "Odd.go: input_schema is not a JSON Schema: [1] is not of type"),
        ({"type": {1}}, "Odd.go: input_schema is not a JSON object: TypeError: Object of type set"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused(schema: Any, sentence: str) -> None:
    def go(self: Any, params: Any) -> ToolOutput: ...  # type: ignore[empty-body]

    with pytest.raises(Unhostable) as caught:
        table(type("Odd", (), {"go": tool(input_schema=schema)(go)}))
    assert sentence in str(caught.value)
