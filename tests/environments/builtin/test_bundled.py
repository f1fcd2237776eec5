"""Tests of every bundled environment: its card and its threshold. `tests/environments/checking`
checks their tasks."""

from __future__ import annotations

import re

import pytest
from django.conf import settings
from pydantic import ValidationError

from environments.authoring.declarations import card_of
from environments.authoring.hosted_class import HostedClass
from environments.builtin import guess, math
from environments.hosts.loading import load
from tests.rows import each

REGISTRY = load(settings.ORSWEB_BUNDLED_ENVIRONMENTS)


@each("hosted", list(REGISTRY), ids=REGISTRY.names)
def test_it_has_a_card_that_names_its_tools(hosted: HostedClass) -> None:
    card = card_of(hosted.cls)
    assert card.startswith(f"# {hosted.name}\n")
    for spec in [*hosted.class_tools.tools, *hosted.tools.task_specific]:
        assert re.search(rf"`{spec.name}\b", card), spec.name


@each("hosted", list(REGISTRY), ids=REGISTRY.names)
def test_its_threshold_lies_in_its_range(hosted: HostedClass) -> None:
    cls = hosted.cls
    low, high = cls.reward_range  # type: ignore[attr-defined]
    assert low < cls.success_threshold < high  # type: ignore[attr-defined]


@each("hosted", list(REGISTRY), ids=REGISTRY.names)
def test_agents_have_no_tool_that_tells_its_oracle(hosted: HostedClass) -> None:
    assert hosted.overrides("oracle") and hosted.overrides("exploits")
    assert not {"oracle", "exploits"} & set(hosted.tools.by_name)


@each("answer", [None, "42", float("nan"), True])
def test_the_schema_of_math_wants_a_number(answer: object) -> None:
    with pytest.raises(ValidationError, match="answer"):
        math.Task.model_validate({"question": "What?", "answer": answer})


def test_the_schema_of_guess_wants_the_number_in_range() -> None:
    with pytest.raises(
        ValidationError, match="target is 11; it has to be from low, 1, to high, 10"
    ):
        guess.Task.model_validate({"low": 1, "high": 10, "target": 11, "attempts": 3})
