"""Tests of what the server knows about a class of any SDK."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import openreward.environments as orw
import ors
import pytest
from structlog.testing import capture_logs

from environments import Environment, TextBlock, ToolOutput, ToolSpec, tool
from environments.authoring.hosted_class import HostedClass, sdk_of
from environments.authoring.registry import load_class
from environments.errors import InvalidRequest, Unhostable
from environments.wire import GroupCandidate, Message, TerminalToolSpec
from tests import envs, envs_openreward, envs_ors
from tests.environments.odd import GO, PROMPT, SPLITS, WHOLE, odd, raising
from tests.envs_base import Small, said
from tests.rows import each

ALL_THREE = [envs.Echo, envs_ors.OrsEcho, envs_openreward.OrwEcho]


def names(specs: Sequence[ToolSpec]) -> list[str]:
    return [spec.name for spec in specs]


@pytest.mark.parametrize(
    ("cls", "sdk"), list(zip(ALL_THREE, ["environments", "ors", "openreward"], strict=True))
)
def test_it_knows_the_sdk_of_a_class(cls: type, sdk: str) -> None:
    assert HostedClass(cls).sdk.name == sdk


def test_it_knows_no_sdk_of_another_class() -> None:
    assert sdk_of(dict) is None


@pytest.mark.parametrize("cls", ALL_THREE)
def test_it_finds_the_tools_of_a_class_of_any_sdk(cls: type) -> None:
    listed = HostedClass(cls).class_tools
    assert {"echo", "finish"} <= set(names(listed.tools))
    assert listed.tools[0].model_dump() == {
        "name": "echo",
        "description": "Say it again.",
        "input_schema": envs_ors.Text.model_json_schema(),
    }


@each(
    "cls",
    [envs_ors.OrsEcho, envs_ors.OrsToolset, envs_openreward.OrwEcho, envs_openreward.OrwToolset],
)
def test_it_lists_what_the_sdk_itself_lists(cls: Any) -> None:
    assert [spec.model_dump() for spec in HostedClass(cls).class_tools.tools] == [
        spec.model_dump() for spec in cls.list_tools().tools
    ]


@pytest.mark.parametrize("cls", [envs.Terminal, envs_openreward.OrwTerminal])
def test_it_hides_a_terminal_tool_and_tells_of_it(cls: type) -> None:
    listed = HostedClass(cls).class_tools
    assert names(listed.tools) == ["look"]
    assert listed.terminal_tool == TerminalToolSpec(
        name="submit", arg="text", description="Grade the final message."
    )


@each(
    ("cls", "supported"),
    [
        (envs.Scored, True),
        (envs_openreward.OrwScored, True),
        (envs.Echo, False),
        (envs_ors.OrsEcho, False),
    ],
)
def test_it_knows_whether_groups_can_be_scored(cls: type, supported: bool) -> None:
    assert HostedClass(cls).class_tools.supports_score_group is supported


@pytest.mark.parametrize(
    ("cls", "type_of"),
    [(envs_openreward.OrwScored, orw.GroupCandidate), (envs.Scored, GroupCandidate)],
)
def test_it_hands_candidates_over_in_the_types_of_the_sdk(cls: type, type_of: type) -> None:
    candidate = GroupCandidate(messages=[Message(role="assistant", blocks=[TextBlock(text="hi")])])
    [theirs] = HostedClass(cls).candidates([candidate])
    assert isinstance(theirs, type_of)
    assert theirs.model_dump() == candidate.model_dump()


@pytest.mark.parametrize(("cls", "own"), list(zip(ALL_THREE, [False, True, False], strict=True)))
def test_it_runs_ors_classes_on_one_thread_by_default(cls: type, own: bool) -> None:
    assert HostedClass(cls).own_thread is own


def test_it_lets_the_author_decide_about_threads() -> None:
    free = type("Free", (envs_ors.OrsEcho,), {"own_thread": False})
    assert HostedClass(free).own_thread is False


@each(
    ("cls", "runs"),
    [
        (envs.Echo, False),
        (envs.Counter, True),
        (envs_ors.OrsEcho, False),
        (envs_ors.OrsThreads, True),
    ],
)
def test_it_knows_whether_constructing_runs_an_authors_code(cls: type, runs: bool) -> None:
    assert HostedClass(cls).runs_constructor is runs


def test_it_knows_the_errors_an_agent_may_recover_from() -> None:
    assert (
        HostedClass(envs.Raises).recoverable_errors,
        HostedClass(envs_ors.OrsEcho).recoverable_errors,
    ) == (
        (LookupError,),
        (),
    )


# --- the tools of a session -----------------------------------------------------------------------


def session_tools(cls: type, task_tools: Sequence[ToolSpec] | None) -> list[str]:
    hosted = HostedClass(cls)
    return names(hosted.session_tools(hosted.tools, task_tools).tools)


def spec(name: str) -> ToolSpec:
    return ToolSpec(name=name, description="", input_schema=None)


@pytest.mark.parametrize("cls", [envs_ors.OrsHidden, envs.TaskTools])
def test_it_lists_task_specific_tools_where_nothing_is_overridden(cls: type) -> None:
    assert session_tools(cls, None) == ["look", "dig"]


def test_it_lets_an_override_decide_alone() -> None:
    assert session_tools(envs.TaskTools, []) == ["look"]


def test_it_lists_no_tool_twice() -> None:
    assert session_tools(envs.TaskTools, [spec("dig"), spec("look"), spec("dig")]) == [
        "look",
        "dig",
    ]


def test_it_hides_the_terminal_tool_from_a_session_too() -> None:
    assert session_tools(envs.Terminal, [spec("submit")]) == ["look"]


# --- what cannot be hosted ------------------------------------------------------------------------


def _one_argument(self: Any, task: Any) -> None: ...
def _no_secrets(self: Any, task_spec: Any) -> None: ...
def _no_return(self: Any): ...  # type: ignore[no-untyped-def]


@each(
    ("body", "sentence"),
    [
        (
            {**PROMPT, **SPLITS},
            "Odd has no tools; mark at least one method that returns ToolOutput with @tool.",
        ),
        ({**PROMPT, **GO}, "Odd has no splits"),
        ({**SPLITS, **GO}, "Odd has no prompt; implement get_prompt() or get_messages()."),
        (
            {**PROMPT, **SPLITS, **GO, "toolsets": [type("Signs", (), GO)]},
            "'go' is in both Odd and toolset 'Signs'",
        ),
        (
            {**WHOLE, "__init__": _one_argument},
            "Odd cannot be constructed as Odd(task_spec=…, secrets=…): missing",
        ),
        (
            {**WHOLE, "__init__": _no_secrets},
            "got an unexpected keyword argument 'secrets'; let __init__ take both.",
        ),
        (
            {**PROMPT, **SPLITS, **GO},
            "Odd has no tasks; implement list_tasks(), or num_tasks() and get_task().",
        ),
        (
            {**PROMPT, **SPLITS, **GO, "num_tasks": classmethod(raising)},
            "Odd has no tasks; implement",
        ),
        (
            {**PROMPT, **SPLITS, "go": tool(_no_return)},
            "Odd has no tools (Odd.go: it lacks `-> ToolOutput`); mark",
        ),
    ],
)
def test_it_refuses_a_class_with_one_sentence(body: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Unhostable) as caught:
        HostedClass(odd(body))
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("base", [Environment, ors.Environment, orw.Environment])
@each("name", ["setup", "teardown", "get_prompt", "task_spec", "name", "list_tools", "list_tasks"])
def test_it_refuses_a_tool_that_replaces_what_every_environment_has(name: str, base: type) -> None:
    sentence = (
        rf"^Odd.{name} is a tool, but every environment has an? \w+ of that name; rename the "
        rf"tool\.$"
    )
    with pytest.raises(Unhostable, match=sentence):
        HostedClass(odd({**WHOLE, name: GO["go"]}, base))


def test_it_hosts_a_class_that_counts_and_gets_instead_of_listing() -> None:
    body = {
        "num_tasks": classmethod(lambda cls, split: 1),
        "get_task": classmethod(lambda cls, split, index: {}),
    }
    assert HostedClass(odd({**PROMPT, **SPLITS, **GO, **body})).name == "odd"


def test_it_logs_each_marked_method_that_is_no_tool() -> None:
    with capture_logs() as logged:
        HostedClass(odd({**WHOLE, "stop": tool(_no_return)}))
    reason = "it lacks `-> ToolOutput`"
    assert logged == [
        {"event": "tool_skipped", "log_level": "warning", "tool": "Odd.stop", "reason": reason}
    ]


@pytest.mark.parametrize("cls", [envs.Echo, envs_ors.OrsEcho])
def test_it_says_which_sdk_has_no_toolsets(cls: type) -> None:
    with pytest.raises(
        InvalidRequest,
        match=r"^unknown toolset 'zz'; valid options are \[\]; .* "
        r"has no toolsets",
    ):
        HostedClass(cls).check_toolset("zz")


@pytest.mark.parametrize("base", [ors.Environment, orw.Environment])
def test_it_names_the_abstract_methods_a_class_lacks(base: type) -> None:
    marked = (ors if base is ors.Environment else orw).tool(GO["go"])
    with pytest.raises(Unhostable, match=r"Odd cannot be constructed; implement .*list_tasks"):
        HostedClass(odd({**PROMPT, **SPLITS, "go": marked}, base))


@each("thing", [dict, 5, Small({}), ors.Toolset])
def test_it_refuses_what_is_no_environment(thing: Any) -> None:
    with pytest.raises(Unhostable, match="is not an Environment class"):
        HostedClass(thing)


def by_hand(cls: type, returned: Any) -> HostedClass:
    return HostedClass(type("ByHand", (cls,), {"hand_controls": classmethod(lambda cls: returned)}))


@pytest.mark.parametrize("cls", ALL_THREE)
def test_a_class_of_any_sdk_says_how_people_play_it(cls: type) -> None:
    control = {"label": "Hello", "key": "h", "tool": "echo", "input": {"text": "hello"}}
    found = by_hand(cls, {"controls": [control], "drawing": "text"}).hand_controls
    assert (found.drawing, [one.model_dump() for one in found.controls]) == ("text", [control])
    assert HostedClass(cls).hand_controls.controls == []
    mark = {"open": "[", "close": "]", "tool": "echo", "argument": "text"}
    assert [one.model_dump() for one in by_hand(cls, {"marks": [mark]}).hand_controls.marks] == [
        mark
    ]


FAULTY = (
    {"controls": [{"tool": "echo"}]},
    {"drawing": "video"},
    {"marks": [{"open": "["}]},
    {"keys": []},
    "up",
)


@each("faulty", FAULTY)
def test_faulty_hand_controls_are_refused_when_the_class_is_hosted(faulty: Any) -> None:
    with pytest.raises(Unhostable, match=r"hand_controls\(\) returned .*which can't be used"):
        by_hand(envs.Echo, faulty)


def test_a_tool_may_be_called_python() -> None:
    class Coder(Small):
        @tool
        def python(self) -> ToolOutput:
            return said("ran")

    assert HostedClass(Coder).python == ""


def test_a_description_is_the_docstring_of_the_nearest_class_that_has_one() -> None:
    described = type("Described", (envs.Echo,), {"__doc__": "Say it.\n\n    Twice."})
    assert HostedClass(type("Heir", (described,), {})).description == "Say it.\n\nTwice."


def test_a_description_is_the_first_paragraph_of_the_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "README.md").write_text(
        "# Crates\n\n[![Badge](x)](y)\n\n## About\nPush crates\ninto places.\n\nMore.\n"
    )
    (tmp_path / "orsweb_test_crates.py").write_text(CRATES)
    monkeypatch.syspath_prepend(tmp_path)
    assert load_class("orsweb_test_crates:Crates").description == "Push crates\ninto places."


CRATES = """
from environments import Environment, ToolOutput, tool

class Crates(Environment):
    @classmethod
    def list_splits(cls): return ["train"]
    @classmethod
    def list_tasks(cls, split): return [{}]
    def get_prompt(self): return []
    @tool
    def push(self) -> ToolOutput: raise NotImplementedError
"""
