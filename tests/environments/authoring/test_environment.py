"""The defaults of the Environment base class, and that the three SDKs agree on them."""

import inspect
from collections.abc import Sequence
from typing import Any

import openreward.environments
import ors
import pytest

import environments
from environments import Blocks, Environment, JSONObject, TextBlock
from tests.envs import Conversation, Echo, Procedural
from tests.rows import each


async def test_it_counts_listed_tasks() -> None:
    assert [await Echo.num_tasks(split) for split in ("train", "test")] == [3, 2]


@each("index", [0, 2, -1, -3])
async def test_it_gets_a_task_from_either_end(index: int) -> None:
    assert await Echo.get_task("train", index) == Echo.list_tasks("train")[index]


@pytest.mark.parametrize("index", [3, -4])
async def test_it_raises_index_error_beyond_either_end(index: int) -> None:
    with pytest.raises(IndexError):
        await Echo.get_task("train", index)


@each(
    ("start", "stop"),
    [(None, None), (1, None), (None, 2), (-2, None), (0, -1), (-99, 99), (2, 1), (5, 9)],
)
async def test_it_clamps_a_range_like_a_slice(start: int | None, stop: int | None) -> None:
    assert (
        await Echo.get_task_range("train", start, stop)
        == list(Echo.list_tasks("train"))[start:stop]
    )


async def test_it_gets_a_range_of_a_class_that_lists_nothing() -> None:
    tasks = await Procedural.get_task_range("train", -2)
    assert [task["seed"] for task in tasks] == [999_998, 999_999]


async def test_it_accepts_an_async_list_and_a_plain_count() -> None:
    class Mixed(Environment):
        @classmethod
        async def list_tasks(cls, split: str) -> Sequence[JSONObject]:
            return [{"n": n} for n in range(4)]

        @classmethod
        def num_tasks(cls, split: str) -> int:  # type: ignore[override]
            return 2

    assert await Mixed.get_task_range("train") == [{"n": 0}, {"n": 1}]


async def test_it_keeps_no_tasks_of_a_parent_class() -> None:
    class More(Echo):
        @classmethod
        def list_tasks(cls, split: str) -> Sequence[JSONObject]:
            return [*super().list_tasks(split), {"id": "more"}]

    assert [await Echo.num_tasks("train"), await More.num_tasks("train")] == [3, 4]


def test_it_keeps_the_task_and_not_the_secrets() -> None:
    made = Environment({"id": 1}, {"token": "hidden-value"})
    assert vars(made) == {"task_spec": {"id": 1}}


def test_it_is_named_after_its_class() -> None:
    assert Echo.name() == "Echo"


@pytest.mark.parametrize("method", ["get_prompt", "get_messages", "score_group"])
def test_it_leaves_to_the_author_what_only_the_author_knows(method: str) -> None:
    arguments = [[]] if method == "score_group" else []
    with pytest.raises(NotImplementedError):
        getattr(Environment(), method)(*arguments)


@pytest.mark.parametrize(
    ("sdk", "left_out"),
    [(ors, {"__version__"}), (openreward.environments, {"download_text", "upload_text"})],
)
def test_it_offers_the_names_of_both_sdks(sdk: Any, left_out: set[str]) -> None:
    assert set(sdk.__all__) - set(environments.__all__) == left_out


def test_its_server_says_how_to_serve() -> None:
    with pytest.raises(
        RuntimeError,
        match=r"orsweb serves environments with: .*manage\.py serve "
        r"module:Class",
    ):
        environments.Server([Echo])


@pytest.mark.parametrize(
    "answer", [{"ok": True, "output": {"blocks": []}}, {"ok": False, "error": "no"}]
)
def test_it_reads_what_a_call_comes_to(answer: dict[str, Any]) -> None:
    kind = environments.RunToolSuccess if answer["ok"] else environments.RunToolError
    assert isinstance(environments.RunToolOutput.model_validate(answer).root, kind)


METHODS = [
    "__init__",
    "setup",
    "teardown",
    "get_prompt",
    "list_splits",
    "list_tasks",
    "num_tasks",
    "get_task",
]
METHODS += ["get_task_range", "list_task_tools", "list_tools", "name"]
MORE_METHODS = [
    "get_messages",
    "terminal_tool",
    "is_assistant_message_final",
    "call_terminal_tool",
    "score_group",
]


def _signature(cls: type, method: str) -> list[tuple[str, Any]]:
    return [
        (one.name, one.default)
        for one in inspect.signature(getattr(cls, method)).parameters.values()
    ]


@each("sdk", [ors, openreward.environments])
@each("method", METHODS)
def test_it_takes_the_parameters_of_the_sdk(sdk: Any, method: str) -> None:
    assert _signature(Environment, method) == _signature(sdk.Environment, method)


@each("method", MORE_METHODS)
def test_it_takes_the_parameters_of_openreward(method: str) -> None:
    assert _signature(Environment, method) == _signature(
        openreward.environments.Environment, method
    )


def test_its_toolset_takes_the_parameters_of_openreward() -> None:
    assert _signature(environments.Toolset, "__init__") == _signature(
        openreward.environments.Toolset, "__init__"
    )


PUBLIC = {
    name
    for sdk in (ors, openreward.environments)
    for name in dir(sdk.Environment)
    if not name.startswith("_")
}


@each("name", sorted(PUBLIC))
def test_it_offers_what_is_public_in_the_sdks(name: str) -> None:
    assert hasattr(Environment, name)


def test_a_list_of_tools_is_the_callers_own() -> None:
    Echo.list_tools().tools.clear()
    assert [spec.name for spec in Echo.list_tools().tools] == ["echo", "finish"]


async def test_its_prompt_is_made_of_its_messages() -> None:
    class Later(Conversation):
        async def get_prompt(self) -> Blocks:
            prompt = super().get_prompt()
            assert inspect.isawaitable(prompt)
            return [TextBlock(text="Before."), *await prompt]

    texts = [block.text for block in await Later().get_prompt() if isinstance(block, TextBlock)]
    assert texts[:3] == ["Before.", "[system]", "Be brief."]


def test_a_toolset_without_a_sandbox_says_who_has_to_set_it() -> None:
    toolset = environments.Toolset(Echo())
    assert not hasattr(toolset, "sandbox")
    with pytest.raises(AttributeError, match="Toolset has no sandbox; let the environment set one"):
        toolset.sandbox  # noqa: B018
