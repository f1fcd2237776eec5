"""Tests that trainers can use exported messages and pairs: templates render them, `datasets` loads
them, TRL trains.

The templates are those that TRL's wheel ships for the models that it supports. Whether one takes
tools is decided by what it makes of a short conversation, as TRL's `supports_tool_calling` does.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import datasets
import pytest
from conftest import DATASETS_3, HERE, Export, rows_of, run
from tiny_model import TEMPLATES, make, make_with_images
from transformers.image_utils import load_image
from transformers.utils.chat_template_utils import render_jinja_template
from trl.data_utils import prepare_multimodal_messages

Row = dict[str, Any]
MIN_TEMPLATES = 30
TOKENS = {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>"}
STRING_ONLY = {"deepseekv3.jinja"}
"""Templates that concatenate arguments with text, and so fail with objects; TRL's own variant for
training does not."""
THINKING = {"gptoss.jinja", "gptoss_training.jinja"}
"""Templates that take text or reasoning before a call, but not both; `--reasoning thinking` writes
only reasoning."""
TEXT_ARGUMENTS = ("--arguments", "string", "--tools", "text")
VERDICTS = ("Correct.", "Wrong.")


@cache
def source_of(template: str) -> str:
    return (TEMPLATES / template).read_text(encoding="utf-8")


def render(template: str, messages: list[Row], tools: Any = None) -> str:
    texts, _ = render_jinja_template(
        conversations=[messages],
        tools=(json.loads(tools) if isinstance(tools, str) else tools) or None,
        chat_template=source_of(template),
        **TOKENS,
    )
    return str(texts[0])


def takes_tools(template: str, *, as_parts: bool = False) -> bool:
    """Return whether a template renders the name, the arguments and the result of a call."""

    def content(text: str) -> Any:
        return [{"type": "text", "text": text}] if as_parts else text

    def exchange(arguments: Any) -> list[Row]:
        call = {"type": "function", "function": {"name": "tool1", "arguments": arguments}}
        return [
            {"role": "user", "content": content("hi")},
            {"role": "assistant", "content": content(""), "tool_calls": [call]},
            {"role": "tool", "name": "tool1", "content": content("result1")},
        ]

    for arguments in ({"key1": "value1"}, '{"key1": "value1"}'):
        try:
            text = render(template, exchange(arguments))
        except Exception:  # whatever a template raises, it does not take this
            continue
        return all(word in text for word in ("tool1", "key1", "value1", "result1"))
    return False


NAMES = sorted(path.name for path in TEMPLATES.glob("*.jinja"))
TEXT_TEMPLATES = [name for name in NAMES if takes_tools(name)]
IMAGE_TEMPLATES = [
    name for name in NAMES if "image" in source_of(name) and takes_tools(name, as_parts=True)
]


def conversations_of(row: Row) -> Iterator[list[Row]]:
    if "messages" in row:
        yield row["messages"]
    else:
        yield from (row["prompt"], row["prompt"] + row["chosen"], row["prompt"] + row["rejected"])


def arguments_in(messages: list[Row]) -> list[Any]:
    return [
        call["function"]["arguments"]
        for message in messages
        for call in message.get("tool_calls") or ()
    ]


def encoded_twice(arguments: Row) -> list[str]:
    """Return the texts that a template writes if it encodes a text of JSON once more."""
    inner = [json.dumps(arguments), json.dumps(arguments, separators=(",", ":"))]
    return [json.dumps(text)[1:-1] for text in inner] if arguments else []


def check_rendering(template: str, rows: list[Row]) -> None:
    for row in rows:
        for messages in conversations_of(row):
            text = render(template, messages, row["tools"])
            for arguments in arguments_in(messages):
                values = arguments if isinstance(arguments, dict) else json.loads(arguments)
                assert all(name in text for name in values)
                assert not any(wrong in text for wrong in encoded_twice(values))


def test_the_wheel_ships_enough_templates_that_take_tools() -> None:
    assert len(TEXT_TEMPLATES) >= MIN_TEMPLATES and len(IMAGE_TEMPLATES) >= 10


@pytest.mark.parametrize("format", ["messages", "pairs"])
@pytest.mark.parametrize(
    "template", [name for name in TEXT_TEMPLATES if name not in STRING_ONLY | THINKING]
)
def test_a_template_renders_every_row_and_encodes_arguments_once(
    export: Export, template: str, format: str
) -> None:
    check_rendering(template, rows_of(export(format)))


@pytest.mark.parametrize("template", sorted(STRING_ONLY))
def test_a_template_of_strings_renders_rows_with_strings(export: Export, template: str) -> None:
    check_rendering(template, rows_of(export("messages", "--arguments", "string")))


@pytest.mark.parametrize("format", ["messages", "pairs"])
@pytest.mark.parametrize("template", sorted(THINKING))
def test_a_template_of_thinking_renders_rows_with_thinking(
    export: Export, template: str, format: str
) -> None:
    check_rendering(template, rows_of(export(format, "--reasoning", "thinking")))


@pytest.mark.parametrize("format", ["messages", "pairs"])
@pytest.mark.parametrize("template", IMAGE_TEMPLATES)
def test_a_template_of_images_renders_every_row(export: Export, template: str, format: str) -> None:
    check_rendering(template, rows_of(export(format, "--images", "column")))


def test_each_image_has_its_place_and_opens(export: Export) -> None:
    rows = [row for row in rows_of(export("messages", "--images", "column")) if row["images"]]
    assert rows
    for row in rows:
        # raises if the numbers differ
        messages = prepare_multimodal_messages(row["messages"], images=row["images"])
        placed = [
            part["image"]
            for message in messages
            for part in message["content"]
            if part["type"] == "image"
        ]
        assert placed == row["images"]
    assert load_image(rows[0]["images"][0]).width > 1


def test_the_images_of_pairs_stand_in_the_prompt(export: Export) -> None:
    rows = [row for row in rows_of(export("pairs", "--images", "column")) if row["images"]]
    assert rows
    for row in rows:
        prepare_multimodal_messages(row["prompt"], images=row["images"])
        prepare_multimodal_messages(row["chosen"]), prepare_multimodal_messages(row["rejected"])


def test_no_words_of_a_grader_are_in_a_completion(export: Export) -> None:
    rows = [row for row in rows_of(export("pairs")) if row["environment"] == "math"]
    assert rows
    for row in rows:
        for side in ("chosen", "rejected"):
            assert row[side][-1]["role"] == "assistant"
            assert not any(
                word in str(message["content"]) for word in VERDICTS for message in row[side]
            )


def test_every_conversation_has_a_users_message(export: Export) -> None:
    rows = rows_of(export("messages"))
    assert all(any(message["role"] == "user" for message in row["messages"]) for row in rows)


def reported(rows: list[Row]) -> list[Row]:
    found = [row for row in rows if row["conversation"] == "reported"]
    assert found and len(found) < len(rows)
    return found


def test_uploaded_conversations_keep_the_reasoning_of_the_model(export: Export) -> None:
    for row in reported(rows_of(export("messages"))):
        roles = [message["role"] for message in row["messages"]]
        assert roles[:3] == ["system", "user", "assistant"] and roles[-1] == "assistant"
        assert all(
            message["reasoning_content"]
            for message in row["messages"]
            if message["role"] == "assistant"
        )
    assert all(
        row["rollout"] == "" for row in rows_of(export("messages", "--conversation", "recorded"))
    )


@pytest.mark.parametrize(
    ("template", "member"), [("qwen3.jinja", "reasoning_content"), ("gptoss.jinja", "thinking")]
)
def test_a_template_renders_the_reasoning(export: Export, template: str, member: str) -> None:
    for row in reported(rows_of(export("messages", "--reasoning", member))):
        assert "check the sum." in render(template, row["messages"], row["tools"])


def test_a_file_with_usage_loads(export: Export) -> None:
    path = export("messages", "--usage", "yes", *TEXT_ARGUMENTS)
    assert without_none(loaded(path)) == without_none(rows_of(path))
    assert all(row["input_tokens"] % 120 == 0 for row in reported(rows_of(path)))


def without_none(value: Any) -> Any:
    """Return a value without the members that Arrow adds to objects, and with the digits that
    `datasets` 5 keeps."""
    if isinstance(value, dict):
        return {name: without_none(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_none(item) for item in value]
    return round(value, 8) if isinstance(value, float) else value


def loaded(path: Path) -> list[Row]:
    with tempfile.TemporaryDirectory() as cache:
        return list(
            datasets.load_dataset("json", data_files=str(path), split="train", cache_dir=cache)
        )


READ = """
import json, sys, tempfile, datasets
assert datasets.__version__.startswith("3.")
def lines():
    with open(sys.argv[1], encoding="utf-8") as file:
        yield from map(json.loads, file)
if sys.argv[2] == "load":
    with tempfile.TemporaryDirectory() as cache:
        rows = list(datasets.load_dataset("json", data_files=sys.argv[1], split="train", cache_dir=cache))
else:
    rows = list(datasets.IterableDataset.from_generator(lines))
print(json.dumps(rows))
"""


def loaded_by_datasets_3(path: Path, how: str = "load") -> list[Row]:
    return list(json.loads(run(DATASETS_3, "-c", READ, path, how).splitlines()[-1]))


@pytest.mark.parametrize("format", ["messages", "pairs"])
@pytest.mark.parametrize("images", ["text", "column", "url"])
@pytest.mark.parametrize("arguments", [(), TEXT_ARGUMENTS])
def test_datasets_5_loads_every_row(
    export: Export, format: str, images: str, arguments: tuple[str, ...]
) -> None:
    path = export(format, "--images", images, *arguments)
    assert without_none(loaded(path)) == without_none(rows_of(path))


@pytest.mark.parametrize("format", ["messages", "pairs"])
@pytest.mark.parametrize("images", ["text", "column", "url"])
def test_datasets_3_loads_the_same_rows(export: Export, format: str, images: str) -> None:
    path = export(format, "--images", images, *TEXT_ARGUMENTS)
    assert without_none(loaded_by_datasets_3(path)) == without_none(rows_of(path))


def test_datasets_3_reads_objects_from_a_generator(export: Export) -> None:
    path = export("messages")
    assert loaded_by_datasets_3(path, "generate") == rows_of(path)


@pytest.fixture(scope="session")
def model(export: Export, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("model")
    make(
        directory,
        [
            render("qwen3_training.jinja", row["messages"], row["tools"])
            for row in rows_of(export("messages"))
        ],
    )
    return directory


@pytest.mark.parametrize(("script", "format"), [("sft.py", "messages"), ("dpo.py", "pairs")])
def test_a_trainer_takes_a_step(
    export: Export, model: Path, tmp_path: Path, script: str, format: str
) -> None:
    path = export(format)
    few = ("--max-steps", "1", "--batch-size", "2", "--max-length", "2048")
    printed = run(sys.executable, HERE / script, path, model, "--output", tmp_path, *few)
    assert "train_loss" in printed and (tmp_path / "model.safetensors").stat().st_size > 0


def test_a_trainer_takes_a_step_on_images(export: Export, tmp_path: Path) -> None:
    path = export("messages", "--images", "column", "--environment", "chart", "--steps-to", "1")
    rows = rows_of(path)
    make_with_images(
        tmp_path / "model",
        [render("qwen3_vl.jinja", row["messages"], row["tools"]) for row in rows],
    )
    few = ("--max-steps", "1", "--batch-size", "1")
    printed = run(
        sys.executable,
        HERE / "sft.py",
        path,
        tmp_path / "model",
        "--output",
        tmp_path / "sft",
        *few,
    )
    assert all(row["images"] for row in rows) and "train_loss" in printed
