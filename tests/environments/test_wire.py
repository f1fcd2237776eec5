"""The JSON text and the types of messages."""

import datetime
import json
from typing import Any

import ors
import pytest
from pydantic import BaseModel, ValidationError

from environments.wire import (
    CreateSession,
    ImageBlock,
    Message,
    ReasoningBlock,
    Split,
    TextBlock,
    ToolCallBlock,
    ToolOutput,
    ToolResultBlock,
    ToolSpec,
    checked_json,
    model_json,
    plain_blocks,
    value_json,
)
from tests.rows import each

NAN, INF = float("nan"), float("inf")


def output(**fields: Any) -> ToolOutput:
    return ToolOutput(**{"blocks": [TextBlock(text="x")], **fields})


def test_it_writes_every_key_of_an_output() -> None:
    assert model_json(output()) == (
        '{"blocks":[{"text":"x","detail":null,"type":"text"}],"metadata":null,"reward":null,"finished":false}'
    )


def test_it_spells_the_media_type_as_the_specification() -> None:
    assert (
        json.loads(model_json(ImageBlock(data="QQ==", mimeType="image/png")))["mimeType"]
        == "image/png"
    )


def test_it_writes_exactly_three_keys_per_tool() -> None:
    spec = ToolSpec(name="go", description="", input_schema=None)
    assert model_json(spec) == '{"name":"go","description":"","input_schema":null}'


@each("text", ["é", "\u2028\u2029\u0085", "\x00\x1f", "\ud800", "😀", "a\ud83d"])
def test_it_writes_any_text_as_ascii_and_reads_it_back(text: str) -> None:
    written = model_json(output(blocks=[TextBlock(text=text)], metadata={text: text}))
    assert written.isascii()
    assert json.loads(written)["blocks"][0]["text"] == text
    assert json.loads(written)["metadata"] == {text: text}


@each("odd", ["é", "\u2028", "\ud800", "😀", "a"])
@each("text", ["plain", "plain" * 300, "é" * 1500])
def test_it_writes_the_same_wherever_a_character_beyond_ascii_is(text: str, odd: str) -> None:
    value = {"text": text, "more": [{odd: (1.5, -0.0, 2**70, None)}]}
    expected = json.dumps(value, separators=(",", ":"))
    assert value_json(value) == expected
    checked, written = checked_json(output(blocks=[TextBlock(text=text)], metadata=value))
    assert written == model_json(checked)
    assert f'"metadata":{expected}' in written


def test_it_reads_an_iterator_of_the_author_once() -> None:
    _, written = checked_json(
        output(blocks=[TextBlock(text="x" * 2000)], metadata={"a": iter(["é", "b"])})
    )
    assert json.loads(written)["metadata"] == {"a": ["é", "b"]}


def test_it_writes_what_pydantic_cannot_read_again() -> None:
    value: Any = "é"
    for _ in range(230):
        value = [value]
    assert json.loads(value_json({"text": "x" * 2000, "deep": value})) == {
        "text": "x" * 2000,
        "deep": value,
    }


@pytest.mark.parametrize("reward", [NAN, INF, -INF])
def test_it_writes_a_reward_that_is_no_number_as_null(reward: float) -> None:
    assert json.loads(model_json(output(reward=reward)))["reward"] is None


@each("write", [value_json, lambda value: model_json(TextBlock(text="\ud800", detail=value))])
@each("holder", [lambda n: {"a": [n, {"b": n}]}, lambda n: {"a": (n, n)}, lambda n: {"a": {n}}])
@each("number", [NAN, INF, -INF])
def test_it_writes_strict_json_wherever_such_a_number_is(
    write: Any, holder: Any, number: float
) -> None:
    written = write(holder(number))
    assert "NaN" not in written and "Infinity" not in written
    assert "null" in written


def test_it_writes_the_same_of_another_sdks_output() -> None:
    theirs = ors.ToolOutput(blocks=[ors.TextBlock(text="é")], reward=NAN, metadata={"a": [NAN]})
    ours = output(blocks=[TextBlock(text="é")], reward=NAN, metadata={"a": [NAN]})
    assert model_json(theirs) == model_json(ours)


@each(
    ("value", "text"),
    [
        ({"b": 1, "a": [True, None, 1.5]}, '{"b":1,"a":[true,null,1.5]}'),
        ((1, 2), "[1,2]"),
        ({3}, "[3]"),
        (1e20, "1e+20"),
        (-0.0, "-0.0"),
        (2**70, str(2**70)),
        (datetime.date(2024, 2, 29), '"2024-02-29"'),
        (TextBlock(text="x"), '{"text":"x","detail":null,"type":"text"}'),
        ("\ud800", '"\\ud800"'),
        (b"abc", '"abc"'),
    ],
)
def test_it_writes_plain_data(value: Any, text: str) -> None:
    assert value_json(value) == text


def _cycle() -> list[Any]:
    ring: list[Any] = []
    ring.append(ring)
    return ring


@each("value", [object(), {"a": object()}, b"\xff", _cycle()])
def test_it_raises_type_error_for_what_has_no_json_form(value: Any) -> None:
    with pytest.raises(TypeError):
        value_json(value)


def test_it_raises_type_error_for_metadata_without_json_form() -> None:
    with pytest.raises(TypeError):
        model_json(output(metadata={"odd": object()}))


# --- blocks and messages --------------------------------------------------------------------------


def test_it_takes_blocks_of_any_sdk_as_plain_data() -> None:
    mixed = [ors.TextBlock(text="a"), {"text": "b"}]
    assert plain_blocks(mixed) == [{"text": "a", "detail": None, "type": "text"}, {"text": "b"}]


@each("blocks", ["text", b"text", None, 5, {"text": "x"}, TextBlock(text="x")])
def test_it_refuses_what_is_no_list_of_blocks(blocks: Any) -> None:
    with pytest.raises(TypeError, match=type(blocks).__name__):
        plain_blocks(blocks)


CALL = ToolCallBlock(id="c", name="go", input={})
RESULT = ToolResultBlock(tool_call_id="c", blocks=[TextBlock(text="x")])
THOUGHT = ReasoningBlock(text="hm")


@pytest.mark.parametrize(
    ("role", "block"), [("assistant", CALL), ("assistant", THOUGHT), ("user", RESULT)]
)
def test_it_accepts_a_block_where_it_belongs(role: Any, block: Any) -> None:
    assert Message(role=role, blocks=[block]).blocks == [block]


@pytest.mark.parametrize(
    ("role", "block"), [("user", CALL), ("system", THOUGHT), ("assistant", RESULT)]
)
def test_it_refuses_a_block_where_it_does_not_belong(role: Any, block: Any) -> None:
    with pytest.raises(
        ValidationError, match=f"is not allowed in a '{role}' message; allowed are: image"
    ):
        Message(role=role, blocks=[block])


# --- requests -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body", [{"task_spec": {}}, {"split": "train", "index": 0}, {"split": "", "index": -1}]
)
def test_it_accepts_exactly_one_source_of_the_task(body: dict[str, Any]) -> None:
    assert CreateSession(**body).model_dump(exclude_none=True) == body


@each(
    "body",
    [
        {},
        {"split": "train"},
        {"index": 0},
        {"task_spec": {}, "split": "train", "index": 0},
        {"task_spec": {}, "split": "train"},
        {"task_spec": {}, "index": 0},
        {"task_spec": []},
        {"task_spec": {}, "unknown": 1},
        {"task_spec": {}, "secrets": {"a": 1}},
        {"split": "train", "index": 1.5},
    ],
)
def test_it_refuses_any_other_body(body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        CreateSession(**body)


@pytest.mark.parametrize(
    "body", [{"task_spec": {}, "secrets": {"a": ["hunter2"]}}, {"task_spec": "hunter2"}]
)
def test_it_never_repeats_a_refused_value(body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        CreateSession(**body)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("kind", ["dev", "", None])
def test_it_refuses_another_type_of_split(kind: Any) -> None:
    with pytest.raises(ValidationError):
        Split(name="dev", type=kind)


def test_it_writes_any_pydantic_model() -> None:
    class Point(BaseModel):
        x: float

    assert model_json(Point(x=NAN)) == '{"x":null}'


@pytest.mark.parametrize("data", [b"\x89PNG", bytearray(b"\x89PNG"), object()])
def test_it_says_how_an_image_is_encoded(data: Any) -> None:
    with pytest.raises(
        ValidationError,
        match=r"an image is a text, not \w+; .*base64-encode it, "
        r"as base64\.b64encode",
    ):
        ImageBlock(data=data, mimeType="image/png")
