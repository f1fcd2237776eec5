"""The declarations of a class in every accepted form; any other form is refused with one
sentence."""

from __future__ import annotations

import warnings
from typing import Any

import openreward.environments as orw
import ors
import pytest
from pydantic import BaseModel
from structlog.testing import capture_logs

from environments import Environment, ToolOutput, tool
from environments.authoring.hosted_class import HostedClass
from environments.errors import Unhostable
from tests.environments.odd import WHOLE, odd, raising
from tests.envs_base import Small
from tests.rows import each


def _unresolved(self: Any) -> ToolOutput: ...  # type: ignore[empty-body]


_unresolved.__annotations__ = {"return": "Missing"}


class NoSchema(BaseModel, arbitrary_types_allowed=True):
    value: Small


def _schemaless(self: Any, args: NoSchema) -> ToolOutput: ...  # type: ignore[empty-body]


async def _async_splits(cls: type) -> list[str]:
    return ["train"]


def _exit(cls: type) -> Any:
    raise SystemExit("bye")


@each(
    ("body", "sentence"),
    [
        ({"go": tool(_unresolved)}, "Odd has a tool whose annotations cannot be resolved"),
        ({"go": tool(_schemaless)}, "Odd has a tool whose input has no JSON Schema"),
        ({"toolsets": Small}, "Odd.toolsets must be a tuple of classes, such as (MyToolset,)"),
        ({"toolsets": (5,)}, "Odd.toolsets must be a tuple of classes"),
        (
            {"hidden_fields": "word"},
            "Odd.hidden_fields is the text 'word'; write a tuple of names, such as ('word',).",
        ),
        ({"hidden_fields": 5}, "Odd.hidden_fields is 5; write a tuple of names"),
        ({"hidden_fields": [b"word"]}, "Odd.hidden_fields is [b'word']; write a tuple of names"),
        (
            {"revision_packages": "numpy"},
            "Odd.revision_packages is the text 'numpy'; write a tuple of names",
        ),
        (
            {"required_secrets": "key"},
            "Odd.required_secrets is the text 'key'; write a tuple of names",
        ),
        ({"list_tools": classmethod(raising)}, "Odd.list_tools() raised RuntimeError: no disk ("),
        (
            {"list_tools": classmethod(lambda cls: [5])},
            "Odd.list_tools() must return a ListToolsOutput",
        ),
        ({"name": classmethod(lambda cls: "Ping")}, "Environment name 'ping' is reserved"),
        (
            {"name": classmethod(lambda cls: "")},
            "Odd.name() returned ''; return a non-empty string.",
        ),
        (
            {"name": classmethod(lambda cls: None)},
            "Odd.name() returned None; return a non-empty string",
        ),
        ({"name": classmethod(lambda cls: cls)}, "Odd.name() returned <class"),
        ({"name": classmethod(raising)}, "Odd.name() raised RuntimeError: no disk ("),
        ({"name": classmethod(_exit)}, "Odd.name() raised SystemExit: bye ("),
        ({"name": classmethod(_async_splits)}, "Odd.name() is async; make it a plain method."),
        (
            {"name": classmethod(lambda cls: "x" * 201)},
            "has 201 characters, but at most 200 are allowed",
        ),
        ({"list_splits": classmethod(raising)}, "Odd.list_splits() raised RuntimeError: no disk ("),
        ({"list_splits": classmethod(_exit)}, "Odd.list_splits() raised SystemExit: bye ("),
        (
            {"list_splits": classmethod(_async_splits)},
            "Odd.list_splits() is async; make it a plain method.",
        ),
    ],
)
def test_it_refuses_a_class_with_one_sentence(body: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Unhostable) as caught:
        HostedClass(odd({**WHOLE, **body}))
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def with_splits(declared: Any) -> type:
    return odd({**WHOLE, "list_splits": classmethod(lambda cls: declared)})


@each(
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
    assert [
        (split.name, split.type) for split in HostedClass(with_splits(declared)).splits
    ] == kinds


@each(
    ("declared", "sentence"),
    [
        ([], "Odd has no splits; let list_splits() return at least one, such as ['train']."),
        (["a", "b", "a"], "Odd.list_splits() returns 'a' twice"),
        (
            [{"name": "x", "type": "dev"}],
            "Odd.list_splits() must return names or Split(name, type)",
        ),
        ([None], "Odd.list_splits() must return names"),
        (
            None,
            "Odd.list_splits() returned None; return a list of names or Split(name, type), such "
            "as ['train'].",
        ),
        (5, "Odd.list_splits() returned 5; return a list"),
        (["x" * 201], "has 201 characters, but at most 200 are allowed; shorten it."),
    ],
)
def test_it_refuses_splits_that_cannot_be_served(declared: Any, sentence: str) -> None:
    with pytest.raises(Unhostable) as caught:
        HostedClass(with_splits(declared))
    assert sentence in str(caught.value)


@each("base", [Environment, ors.Environment, orw.Environment])
@each("method", ["name", "list_splits", "list_tasks", "num_tasks", "get_task", "list_tools"])
def test_it_says_which_method_must_be_one_of_the_class(base: type, method: str) -> None:
    def forgotten(self: Any, *_: Any) -> Any: ...

    with pytest.raises(Unhostable) as caught:
        HostedClass(odd({**WHOLE, method: forgotten}, base))
    assert str(caught.value) == f"Odd.{method}() must be a class method; put @classmethod above it."


@pytest.mark.parametrize("kind", [staticmethod, lambda function: function])
def test_a_method_of_the_class_may_do_without_the_class(kind: Any) -> None:
    body = {**WHOLE, "list_splits": kind(lambda: ["train"]), "list_tasks": kind(lambda split: [{}])}
    assert [split.name for split in HostedClass(odd(body)).splits] == ["train"]


def test_it_awaits_no_async_list_splits_and_leaves_no_coroutine_behind() -> None:
    with warnings.catch_warnings(record=True) as seen, pytest.raises(Unhostable, match="is async"):
        warnings.simplefilter("always")
        HostedClass(odd({**WHOLE, "list_splits": classmethod(_async_splits)}))
    assert not [warning for warning in seen if "_async_splits" in str(warning.message)]


@pytest.mark.parametrize("base", [Environment, ors.Environment, orw.Environment])
@each(
    ("attribute", "meant"),
    [
        ("hidden_field", "hidden_fields"),
        ("reward_rang", "reward_range"),
        ("isolaton", "isolation"),
        ("replayabel", "replayable"),
        ("succes_threshold", "success_threshold"),
        ("set_up", "setup"),
        ("recoverable_error", "recoverable_errors"),
    ],
)
def test_it_warns_of_attributes_that_are_probably_misspelled(
    attribute: str, meant: str, base: type
) -> None:
    with capture_logs() as logged:
        HostedClass(odd({**WHOLE, attribute: None}, base))
    sentence = f"Odd.{attribute} is no attribute that a server reads; did you mean {meant}?"
    assert [(entry["event"], entry["reason"]) for entry in logged] == [
        ("attribute_unknown", sentence)
    ]


@each("members", [{"game": 1}, {"hidden": 1}, {"hidden_field": 1, "hidden_fields": ("word",)}])
def test_it_does_not_warn_of_others(members: dict[str, Any]) -> None:
    with capture_logs() as logged:
        HostedClass(odd({**WHOLE, **members}))
    assert not logged
