"""Tests of how a step is compared when it is run again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from episodes.models import Step
from episodes.transcript.step_difference import differing
from tests.rows import each
from tests.stored import make_blob, make_episode, make_step

pytestmark = pytest.mark.django_db


def step(block: Any = "seen", metadata: Any = None, **values: Any) -> Step:
    """Return a step of its own episode; `block`: the text of the only block, or the block
    itself."""
    blocks = [{"type": "text", "text": block} if isinstance(block, str) else block]
    output = json.dumps(
        {"blocks": blocks, "metadata": metadata, "reward": values.get("reward"), "finished": False}
    )
    return make_step(make_episode(), **{"output": output, **values})


def parts(cost: float) -> dict[str, dict[str, float]]:
    return {"reward_components": {"cost": cost}}


@each(
    ("then", "now", "aspects"),
    [
        ({}, {}, ()),
        ({}, {"block": "seen "}, ("output",)),
        ({"reward": 0.1}, {"reward": 0.1}, ()),
        ({"reward": 0.1}, {"reward": 0.10000000000000002}, ("reward",)),
        ({"reward": 0.0}, {"reward": None}, ("reward",)),
        ({}, {"finished": True}, ("finished",)),
        ({}, {"metadata": {"seconds": 0.2}}, ("metadata",)),
        ({"metadata": parts(0.1)}, {"metadata": parts(0.2)}, ("components", "metadata")),
        ({}, {"status": "failed", "output": "", "error": "boom"}, ("outcome", "error", "output")),
        (
            {"error": "no", "reason": "tool_error"},
            {"error": "no", "reason": "not_found"},
            ("outcome",),
        ),
    ],
)
def test_it_names_what_came_out_otherwise(
    then: dict[str, Any], now: dict[str, Any], aspects: tuple[str, ...]
) -> None:
    assert differing(step(**then), step(**now)) == aspects


@each(("one", "other"), [(1, 1.0), (1, True), (0.0, -0.0), (None, 0), ("1", 1), ([1, 2], [2, 1])])
def test_json_is_compared_by_exact_value(one: Any, other: Any) -> None:
    assert differing(step({"data": one}), step({"data": other})) == ("output",)


def test_the_order_of_members_and_the_place_of_an_output_do_not_count() -> None:
    then = step(output='{"blocks": [{"a": 1, "b": [2]}], "metadata": {"x": 1, "y": 2}}')
    text = '{"metadata":{"y":2,"x":1},"blocks":[{"b":[2],"a":1}]}'
    assert differing(then, step(output="", output_blob=make_blob(text))) == ()


@pytest.mark.parametrize(
    "text", ["not JSON", "[1]", '{"blocks": ' + "[" * 5_000 + "]" * 5_000 + "}"]
)
def test_an_output_of_another_form_is_compared_too(text: str) -> None:
    assert differing(step(output=text), step(output=text)) == ()
    assert differing(step(output=text), step()) == ("output",)
