"""Whatever a tool returns, the agent gets valid JSON or an error that says what is wrong with
it."""

from __future__ import annotations

from typing import Any

import pytest
from ors import ToolOutput as OrsToolOutput
from ors import tool as ors_tool
from pydantic import BaseModel

from environments import ToolOutput, tool
from environments.wire import NO_NUMBER
from tests import envs_ors
from tests.environments.runtime.play import Play
from tests.envs import Raises
from tests.envs_base import Small, Text, said
from tests.rows import each


@pytest.mark.parametrize("tool", ["nan_reward", "infinite_reward"])
async def test_it_makes_an_endless_reward_null(tool: str) -> None:
    async with Play(Raises) as play:
        await play.open("s")
        assert (await play.answer("s", tool)).body["output"]["reward"] is None
        await play.service.delete("s", "")
    assert (play.record.steps[0].reward, play.record.steps[0].reason) == (None, NO_NUMBER)
    assert play.record.end.detail == "Step 0: reward was not a number."


async def test_it_makes_nan_in_metadata_null() -> None:
    async with Play(Raises) as play:
        await play.open("s")
        body = (await play.answer("s", "nan_metadata")).body
    assert body["output"]["metadata"] == {"loss": None, "losses": [None, 1.0]}


async def test_it_fills_an_empty_list_of_blocks() -> None:
    async with Play(Raises) as play:
        await play.open("s")
        body = (await play.answer("s", "no_blocks")).body
    assert body["output"]["blocks"] == [{"text": "", "detail": None, "type": "text"}]


@pytest.mark.parametrize("tool", ["surrogate", "nul", "blanks"])
async def test_it_tells_odd_characters_in_ascii(tool: str) -> None:
    async with Play(Raises) as play:
        await play.open("s")
        answer = await play.answer("s", tool)
        assert answer.event == "end" and answer.data.isascii()


class Assigned(BaseModel):
    field: str
    value: Any


class Assigning(Small):
    """Returns an output that was changed after its construction."""

    @tool
    async def assign(self, args: Assigned) -> ToolOutput:
        """Change one field."""
        output = said("as it was", 0.5)
        setattr(output, args.field, args.value)
        return output

    @tool
    async def append(self) -> ToolOutput:
        """Add what is no block."""
        output = said("as it was", 0.5)
        output.blocks.append("just text")  # type: ignore[attr-defined]
        return output


class OrsAssigning(envs_ors.Small):
    """Assigning as a class of the reference."""

    @ors_tool
    async def assign(self, args: Assigned) -> OrsToolOutput:
        """Change one field."""
        output = envs_ors.said("as it was", 0.5)
        setattr(output, args.field, args.value)
        return output

    @ors_tool
    async def append(self) -> OrsToolOutput:
        """Add what is no block."""
        output = envs_ors.said("as it was", 0.5)
        output.blocks.append("just text")
        return output


@each("environment", [Assigning, OrsAssigning])
@each(
    ("field", "value"),
    [
        ("blocks", "just text"),
        ("metadata", "words"),
        ("reward", "many"),
        ("finished", "perhaps"),
        ("finished", None),
    ],
)
async def test_an_output_that_was_changed_into_none_is_a_fault_and_ends_nothing(
    environment: type, field: str, value: Any
) -> None:
    async with Play(environment) as play:
        await play.open("s")
        answer = await play.answer("s", "assign", field=field, value=value)
        assert (
            answer.event == "error"
            and f"'assign' returned a ToolOutput with invalid values ({field}" in (answer.data)
        )
        assert (await play.answer("s", "append")).event == "error"
        assert (await play.answer("s", "assign", field="reward", value=1)).body["output"][
            "reward"
        ] == 1.0
    assert [step.status for step in play.record.steps] == ["failed", "failed", "ok"]


@pytest.mark.parametrize(
    ("field", "value", "kept"), [("reward", "0.5", 0.5), ("finished", "no", False)]
)
async def test_what_was_assigned_is_read_as_the_constructor_would(
    field: str, value: str, kept: Any
) -> None:
    async with Play(Assigning) as play:
        await play.open("s")
        for _ in range(2):
            assert (await play.answer("s", "assign", field=field, value=value)).body["output"][
                field
            ] == kept


async def test_an_output_that_has_no_json_form_ends_nothing() -> None:
    async with Play(Raises) as play:
        await play.open("s")
        assert (await play.answer("s", "unserialisable")).event == "error"
        assert (await play.answer("s", "echo", text="still here")).text == "still here"


async def test_a_result_over_the_limit_is_a_failure_that_names_it() -> None:
    async with Play(Raises, max_result_bytes=5000) as play:
        await play.open("s")
        answer = await play.answer("s", "huge", size_bytes=6000)
        assert answer.event == "error" and "ORSWEB_MAX_RESULT_BYTES allows 5000" in answer.data


class Deep(Small):
    @tool
    async def dig(self, args: Text) -> ToolOutput:
        """Metadata nested as deeply as the text is long."""
        nested: Any = args.text
        for _ in args.text:
            nested = [nested]
        return said("deep", nested=nested)


@each("depth", [100, 250, 400, 900, 5000])
async def test_deeply_nested_metadata_is_always_answered(depth: int) -> None:
    async with Play(Deep) as play:
        await play.open("s", masked_texts=("x" * 8,))
        await play.answer("s", "dig", text="x" * depth)
        assert [step.index for step in play.record.steps] == [0]
