"""What the server knows of a class, whichever SDK it was written for."""

import warnings
from collections.abc import Sequence
from typing import Any

import openreward.environments as orw
import ors
import pytest
from pydantic import BaseModel
from structlog.testing import capture_logs

from environments import Environment, TextBlock, ToolOutput, ToolSpec, tool
from environments.errors import InvalidRequest, Unhostable
from environments.hosting import Hosted, sdk_of
from environments.wire import GroupCandidate, Message, TerminalToolSpec
from tests import envs, envs_openreward, envs_ors
from tests.envs_base import Small, said

ALL_THREE = [envs.Echo, envs_ors.OrsEcho, envs_openreward.OrwEcho]


def names(specs: Sequence[ToolSpec]) -> list[str]:
    return [spec.name for spec in specs]


@pytest.mark.parametrize(("cls", "sdk"), list(zip(ALL_THREE, ["environments", "ors", "openreward"], strict=True)))
def test_it_knows_the_sdk_of_a_class(cls: type, sdk: str) -> None:
    assert Hosted(cls).sdk.name == sdk


def test_it_knows_no_sdk_of_another_class() -> None:
    assert sdk_of(dict) is None


@pytest.mark.parametrize("cls", ALL_THREE)
def test_it_finds_the_tools_of_a_class_of_any_sdk(cls: type) -> None:
    listed = Hosted(cls).class_tools
    assert {"echo", "finish"} <= set(names(listed.tools))
    assert listed.tools[0].model_dump() == {
        "name": "echo",
        "description": "Say it again.",
        "input_schema": envs_ors.Text.model_json_schema(),
    }


@pytest.mark.parametrize(
    "cls", [envs_ors.OrsEcho, envs_ors.OrsToolset, envs_openreward.OrwEcho, envs_openreward.OrwToolset]
)
def test_it_lists_what_the_sdk_itself_lists(cls: Any) -> None:
    assert [spec.model_dump() for spec in Hosted(cls).class_tools.tools] == [
        spec.model_dump() for spec in cls.list_tools().tools
    ]


@pytest.mark.parametrize("cls", [envs.Terminal, envs_openreward.OrwTerminal])
def test_it_hides_a_terminal_tool_and_tells_of_it(cls: type) -> None:
    listed = Hosted(cls).class_tools
    assert names(listed.tools) == ["look"]
    assert listed.terminal_tool == TerminalToolSpec(name="submit", arg="text", description="Grade the final message.")


@pytest.mark.parametrize(
    ("cls", "supported"),
    [(envs.Scored, True), (envs_openreward.OrwScored, True), (envs.Echo, False), (envs_ors.OrsEcho, False)],
)
def test_it_knows_whether_groups_can_be_scored(cls: type, supported: bool) -> None:
    assert Hosted(cls).class_tools.supports_score_group is supported


@pytest.mark.parametrize(
    ("cls", "type_of"),
    [(envs_openreward.OrwScored, orw.GroupCandidate), (envs.Scored, GroupCandidate)],
)
def test_it_hands_candidates_over_in_the_types_of_the_sdk(cls: type, type_of: type) -> None:
    candidate = GroupCandidate(messages=[Message(role="assistant", blocks=[TextBlock(text="hi")])])
    [theirs] = Hosted(cls).candidates([candidate])
    assert isinstance(theirs, type_of)
    assert theirs.model_dump() == candidate.model_dump()


@pytest.mark.parametrize(("cls", "own"), list(zip(ALL_THREE, [False, True, False], strict=True)))
def test_it_runs_ors_classes_on_one_thread_by_default(cls: type, own: bool) -> None:
    assert Hosted(cls).own_thread is own


def test_it_lets_the_author_decide_about_threads() -> None:
    free = type("Free", (envs_ors.OrsEcho,), {"own_thread": False})
    assert Hosted(free).own_thread is False


@pytest.mark.parametrize(
    ("cls", "runs"), [(envs.Echo, False), (envs.Counter, True), (envs_ors.OrsEcho, False), (envs_ors.OrsThreads, True)]
)
def test_it_knows_whether_constructing_runs_an_authors_code(cls: type, runs: bool) -> None:
    assert Hosted(cls).runs_constructor is runs


def test_it_knows_the_errors_an_agent_may_recover_from() -> None:
    assert (Hosted(envs.Raises).recoverable_errors, Hosted(envs_ors.OrsEcho).recoverable_errors) == ((LookupError,), ())


# --- the tools of a session ------------------------------------------------------------------------------------------


def session_tools(cls: type, task_tools: Sequence[ToolSpec] | None) -> list[str]:
    hosted = Hosted(cls)
    return names(hosted.session_tools(hosted.tools, task_tools).tools)


def spec(name: str) -> ToolSpec:
    return ToolSpec(name=name, description="", input_schema=None)


@pytest.mark.parametrize("cls", [envs_ors.OrsHidden, envs.TaskTools])
def test_it_lists_task_specific_tools_where_nothing_is_overridden(cls: type) -> None:
    assert session_tools(cls, None) == ["look", "dig"]


def test_it_lets_an_override_decide_alone() -> None:
    assert session_tools(envs.TaskTools, []) == ["look"]


def test_it_lists_no_tool_twice() -> None:
    assert session_tools(envs.TaskTools, [spec("dig"), spec("look"), spec("dig")]) == ["look", "dig"]


def test_it_hides_the_terminal_tool_from_a_session_too() -> None:
    assert session_tools(envs.Terminal, [spec("submit")]) == ["look"]


# --- splits ----------------------------------------------------------------------------------------------------------


class Splitless(Small):
    @tool
    def go(self) -> ToolOutput:
        return said("")


def with_splits(declared: Any) -> type:
    return type("Odd", (Splitless,), {"list_splits": classmethod(lambda cls: declared)})


@pytest.mark.parametrize(
    ("declared", "kinds"),
    [
        (["train", "dev"], [("train", "train"), ("dev", "validation")]),
        ([ors.Split(name="hard", type="test")], [("hard", "test")]),
        ([orw.Split(name="hard", type="test"), "test"], [("hard", "test"), ("test", "test")]),
        ([{"name": "x", "type": "train"}], [("x", "train")]),
        ("train", [("train", "train")]),
        (iter(["train"]), [("train", "train")]),
    ],
)
def test_it_reads_splits_in_every_form(declared: Any, kinds: list[tuple[str, str]]) -> None:
    assert [(split.name, split.type) for split in Hosted(with_splits(declared)).splits] == kinds


@pytest.mark.parametrize(
    ("declared", "sentence"),
    [
        ([], "Odd has no splits; let list_splits() return at least one, such as ['train']."),
        (["a", "b", "a"], "Odd.list_splits() returns 'a' twice"),
        ([{"name": "x", "type": "dev"}], "Odd.list_splits() must return names or Split(name, type)"),
        ([None], "Odd.list_splits() must return names"),
        (None, "Odd.list_splits() returned None; return a list of names or Split(name, type), such as ['train']."),
        (5, "Odd.list_splits() returned 5; return a list"),
        (["x" * 201], "has 201 characters, and at most 200 are possible; shorten it."),
    ],
)
def test_it_refuses_splits_that_cannot_be_served(declared: Any, sentence: str) -> None:
    with pytest.raises(Unhostable) as caught:
        Hosted(with_splits(declared))
    assert sentence in str(caught.value)


# --- what cannot be hosted -------------------------------------------------------------------------------------------


def _raise(cls: type) -> Any:
    raise RuntimeError("no disk")


def _go(self: Any) -> ToolOutput: ...  # type: ignore[empty-body]
def _unresolved(self: Any) -> ToolOutput: ...  # type: ignore[empty-body]


class NoSchema(BaseModel, arbitrary_types_allowed=True):
    value: Splitless


def _schemaless(self: Any, args: NoSchema) -> ToolOutput: ...  # type: ignore[empty-body]


_unresolved.__annotations__ = {"return": "Missing"}


async def _async_splits(cls: type) -> list[str]:
    return ["train"]


def _exit(cls: type) -> Any:
    raise SystemExit("bye")


def _one_argument(self: Any, task: Any) -> None: ...
def _no_secrets(self: Any, task_spec: Any) -> None: ...
def _no_return(self: Any): ...  # type: ignore[no-untyped-def]


PROMPT = {"get_prompt": Small.get_prompt}
SPLITS = {"list_splits": classmethod(lambda cls: ["train"])}
GO = {"go": tool(_go)}
TASKS: dict[str, Any] = {"list_tasks": classmethod(lambda cls, split: [{}])}
WHOLE = {**PROMPT, **SPLITS, **GO, **TASKS}


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({**PROMPT, **SPLITS}, "Odd has no tools; mark at least one method that returns ToolOutput with @tool."),
        ({**PROMPT, **GO}, "Odd has no splits"),
        ({**SPLITS, **GO}, "Odd has no prompt; implement get_prompt() or get_messages()."),
        ({**PROMPT, **GO, "list_splits": classmethod(_raise)}, "Odd.list_splits() raised RuntimeError: no disk."),
        ({**PROMPT, **SPLITS, "go": tool(_unresolved)}, "Odd has a tool whose annotations cannot be resolved"),
        ({**PROMPT, **SPLITS, "go": tool(_schemaless)}, "Odd has a tool whose input has no JSON Schema"),
        ({**PROMPT, **SPLITS, **GO, "name": classmethod(lambda cls: "Ping")}, "Environment name 'ping' is reserved"),
        ({**WHOLE, "name": classmethod(lambda cls: "")}, "Odd.name() returned ''; return a text that is not empty."),
        ({**WHOLE, "name": classmethod(lambda cls: None)}, "Odd.name() returned None; return a text"),
        ({**WHOLE, "name": classmethod(lambda cls: cls)}, "Odd.name() returned <class"),
        ({**WHOLE, "list_tools": classmethod(_raise)}, "Odd.list_tools() raised RuntimeError: no disk."),
        ({**WHOLE, "list_tools": classmethod(lambda cls: [5])}, "Odd.list_tools() must return a ListToolsOutput"),
        ({**PROMPT, **SPLITS, **GO, "toolsets": [type("Signs", (), GO)]}, "'go' is in both Odd and toolset 'Signs'"),
        ({**WHOLE, "name": classmethod(_raise)}, "Odd.name() raised RuntimeError: no disk."),
        ({**WHOLE, "name": classmethod(_exit)}, "Odd.name() raised SystemExit: bye."),
        ({**WHOLE, "name": classmethod(_async_splits)}, "Odd.name() is async; make it a plain method."),
        ({**WHOLE, "name": classmethod(lambda cls: "x" * 201)}, "has 201 characters, and at most 200 are possible"),
        ({**WHOLE, "list_splits": classmethod(_exit)}, "Odd.list_splits() raised SystemExit: bye."),
        ({**WHOLE, "list_splits": classmethod(_async_splits)}, "Odd.list_splits() is async; make it a plain method."),
        ({**WHOLE, "toolsets": Splitless}, "Odd.toolsets must be a tuple of classes, such as (MyToolset,)"),
        ({**WHOLE, "toolsets": (5,)}, "Odd.toolsets must be a tuple of classes"),
        ({**WHOLE, "__init__": _one_argument}, "Odd cannot be constructed as Odd(task_spec=…, secrets=…): missing"),
        ({**WHOLE, "__init__": _no_secrets}, "got an unexpected keyword argument 'secrets'; let __init__ take both."),
        ({**PROMPT, **SPLITS, **GO}, "Odd has no tasks; implement list_tasks(), or num_tasks() and get_task()."),
        ({**PROMPT, **SPLITS, **GO, "num_tasks": classmethod(_raise)}, "Odd has no tasks; implement"),
        ({**PROMPT, **SPLITS, "go": tool(_no_return)}, "Odd has no tools (Odd.go: it lacks `-> ToolOutput`); mark"),
    ],
)
def test_it_refuses_a_class_with_one_sentence(body: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Unhostable) as caught:
        Hosted(type("Odd", (Environment,), body))
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("base", [Environment, ors.Environment, orw.Environment])
@pytest.mark.parametrize("method", ["name", "list_splits", "list_tasks", "num_tasks", "get_task", "list_tools"])
def test_it_says_which_method_must_be_one_of_the_class(base: type, method: str) -> None:
    def forgotten(self: Any, *_: Any) -> Any: ...

    with pytest.raises(Unhostable) as caught:
        Hosted(type("Odd", (base,), {**WHOLE, method: forgotten}))
    assert str(caught.value) == f"Odd.{method}() must be a class method; put @classmethod above it."


@pytest.mark.parametrize("kind", [staticmethod, lambda function: function])
def test_a_method_of_the_class_may_do_without_the_class(kind: Any) -> None:
    body = {**WHOLE, "list_splits": kind(lambda: ["train"]), "list_tasks": kind(lambda split: [{}])}
    assert [split.name for split in Hosted(type("Odd", (Environment,), body)).splits] == ["train"]


def test_it_awaits_no_async_list_splits_and_leaves_no_coroutine_behind() -> None:
    with warnings.catch_warnings(record=True) as seen, pytest.raises(Unhostable, match="is async"):
        warnings.simplefilter("always")
        Hosted(type("Odd", (Environment,), {**WHOLE, "list_splits": classmethod(_async_splits)}))
    assert not [warning for warning in seen if "_async_splits" in str(warning.message)]


def test_it_hosts_a_class_that_counts_and_gets_instead_of_listing() -> None:
    body = {"num_tasks": classmethod(lambda cls, split: 1), "get_task": classmethod(lambda cls, split, index: {})}
    assert Hosted(type("Odd", (Environment,), {**PROMPT, **SPLITS, **GO, **body})).name == "odd"


def test_it_logs_each_marked_method_that_is_no_tool() -> None:
    with capture_logs() as logged:
        Hosted(type("Odd", (Environment,), {**WHOLE, "stop": tool(_no_return)}))
    reason = "it lacks `-> ToolOutput`"
    assert logged == [{"event": "tool_skipped", "log_level": "warning", "tool": "Odd.stop", "reason": reason}]


@pytest.mark.parametrize("cls", [envs.Echo, envs_ors.OrsEcho])
def test_it_says_which_sdk_has_no_toolsets(cls: type) -> None:
    with pytest.raises(InvalidRequest, match=r"^unknown toolset 'zz'; valid options are \[\]; .* has no toolsets"):
        Hosted(cls).check_toolset("zz")


@pytest.mark.parametrize("base", [ors.Environment, orw.Environment])
def test_it_names_the_abstract_methods_a_class_lacks(base: type) -> None:
    marked = (ors if base is ors.Environment else orw).tool(_go)
    with pytest.raises(Unhostable, match=r"Odd cannot be constructed; implement .*list_tasks"):
        Hosted(type("Odd", (base,), {**PROMPT, **SPLITS, "go": marked}))


@pytest.mark.parametrize("thing", [dict, 5, Small({}), ors.Toolset])
def test_it_refuses_what_is_no_environment(thing: Any) -> None:
    with pytest.raises(Unhostable, match="is not an Environment class"):
        Hosted(thing)
