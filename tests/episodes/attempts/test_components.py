"""Tests of what counts as a component of a reward."""

from __future__ import annotations

from typing import Any

from environments import wire
from episodes.attempts.components import MAX_COMPONENTS, components_in, components_of, may_report
from tests.rows import each


@each(
    ("metadata", "found"),
    [
        ({"reward_components": {"a": 1, "b": -0.5}}, {"a": 1.0, "b": -0.5}),
        ({"rewards": {"a": 1}}, {"a": 1.0}),
        ({"reward_components": {"a": 1}, "rewards": {"a": 2}}, {"a": 1.0}),
        ({"reward_components": [1], "rewards": {"a": 2}}, {"a": 2.0}),
        (
            {
                "reward_components": {
                    "a": float("nan"),
                    "b": float("-inf"),
                    "c": 10**400,
                    "d": True,
                    "e": "1",
                }
            },
            {},
        ),
        (
            {"reward_components": {"": 1, "x" * 90: 2, "nul\0": 3}},
            {"x" * 80: 2.0, "nul\ufffd": 3.0},
        ),
        ({"components": {"a": 1}}, {}),
        ([1], {}),
        (None, {}),
    ],
)
def test_finite_numbers_with_a_name_are_components(metadata: Any, found: dict[str, float]) -> None:
    assert components_of(metadata) == found


def test_further_components_are_ignored() -> None:
    assert (
        len(components_of({"rewards": {str(number): 1 for number in range(100)}})) == MAX_COMPONENTS
    )


@each(
    "output",
    [
        "",
        "no json",
        '{"blocks": [], "metadata": {"other": 1}}',
        '["reward_components"]',
        '"\\"rewards\\""',
    ],
)
def test_an_output_without_components_has_none(output: str) -> None:
    assert components_in(output) == {}


@each("reward", [None, 1.0, -1e300])
@each("finished", [True, False])
def test_an_output_without_metadata_is_not_searched(reward: float | None, finished: bool) -> None:
    """Its text, which may be long, mentions components."""
    output = wire.ToolOutput(blocks=[wire.TextBlock(text="x")], reward=reward, finished=finished)
    plain = wire.model_json(output).replace('"x"', '"rewards"')
    assert not may_report(plain)
    nested = {"rewards": {"a": 1}, "last": {"metadata": None, "reward": 1.0, "finished": True}}
    assert components_in(wire.model_json(output.model_copy(update={"metadata": nested}))) == {
        "a": 1.0
    }
