"""Arguments after a class: which values become attributes, and which are refused with a
sentence."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest

from environments import Environment, JSONObject, TextBlock, ToolOutput, tool
from environments.authoring.hosted_class import HostedClass
from environments.authoring.registry import load_class
from environments.authoring.revision import note_revisions
from environments.authoring.task_source import ClassTasks
from environments.errors import Unhostable
from environments.hosts.loading import load
from environments.runtime.threads import ThreadPool
from environments.runtime.usercode import UserCode
from tests.rows import each

HERE = "tests.environments.authoring.test_class_arguments:Sized"


class Sized(Environment):
    """A field of squares."""

    size: ClassVar[int] = 5
    share: ClassVar[float] = 0.5
    words: ClassVar[tuple[str, ...]] = ("a",)
    name_of: ClassVar[str]
    is_round = False

    @classmethod
    def list_splits(cls) -> list[Any]:
        return ["train"]

    @classmethod
    def list_tasks(cls, split: str) -> list[JSONObject]:
        return [{"place": place} for place in range(cls.size)]

    def get_prompt(self) -> list[Any]:
        return [TextBlock(text=f"{super().__class__.__name__} of {self.size}")]

    @tool
    def go(self) -> ToolOutput:
        """Go."""
        return ToolOutput(blocks=[])


async def tasks_of(hosted: HostedClass) -> list[Any]:
    texts = await ClassTasks(hosted, UserCode(ThreadPool()).call).listing("train")
    return [json.loads(text) for text in texts]


async def test_arguments_are_attributes_that_class_methods_see_too() -> None:
    registry = load(
        [f"small={HERE}?size=2", f"{HERE}?size=3&words=[%22b%22,%22c%22]&name_of=%22x%22"]
    )
    small, other = registry.get("small"), registry.get("sized")
    assert isinstance(small, HostedClass) and isinstance(other, HostedClass)
    assert (len(await tasks_of(small)), len(await tasks_of(other)), Sized.size) == (2, 3, 5)
    assert (other.cls.words, other.cls.name_of) == (("b", "c"), "x")  # type: ignore[attr-defined]
    assert (small.origin, small.description) == (f"{HERE}?size=2", "A field of squares.")
    assert load_class(f"again={small.origin}").cls.size == 2  # type: ignore[attr-defined]  # as worker processes do


def test_settings_of_the_contract_can_be_given() -> None:
    hosted = load_class(f"{HERE}?sessions_at_once=1&isolation=%22process%22&reward_range=[0,2]")
    assert (hosted.sessions_at_once, hosted.isolation, hosted.declared("reward_range", None)) == (
        1,
        "process",
        (0, 2),
    )


def test_other_arguments_are_another_revision() -> None:
    classes = [
        load_class(f"{HERE}{arguments}") for arguments in ("", "?size=2", "?size=3", "?size=2")
    ]
    note_revisions(classes, "1")
    codes = [one.revision.code for one in classes if one.revision]
    assert len(set(codes)) == 3 and codes[1] == codes[3]
    assert not any(one.revision.unread for one in classes if one.revision)


@each(
    ("arguments", "sentence"),
    [
        ("size", "Sized?size gives no value; write module:Class?name=value&other=value."),
        ("sise=2", "Sized has no attribute 'sise' that can be given; it has "),
        ("sise=2", "Did you mean 'size'?"),
        ("go=2", "Sized has no attribute 'go' that can be given"),
        ("list_tasks=[]", "Sized has no attribute 'list_tasks' that can be given"),
        ("name_of=leg", 'Sized.name_of is given leg, which is not JSON; write a text as "leg".'),
        ("size=%22x%22", 'Sized.size is given "x"; it has to be a whole number.'),
        ("size=true", "Sized.size is given true; it has to be a whole number."),
        ("share=%22x%22", "it has to be a number."),
        ("is_round=1", "it has to be true or false."),
        ("words=3", "it has to be a list."),
        (
            "sessions_at_once=0",
            "Sized.sessions_at_once is 0; use a whole number of at least 1, or None.",
        ),
    ],
)
def test_wrong_arguments_are_refused_with_a_sentence(arguments: str, sentence: str) -> None:
    with pytest.raises(Unhostable) as caught:
        load([f"{HERE}?{arguments}"])
    assert sentence in str(caught.value)
