"""Tests that an exported trajectory is imported as the same episode, with the conversation that its
client uploaded."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from environments.models import Task
from environments.models.task_hash import content_hash
from episodes.models import Rollout, RolloutMessage, Run, Step
from episodes.rollups.follower import catch_up
from episodes.transfer.importing import EpisodeImportReport, Import
from tests.episodes.reported import played, reported
from tests.episodes.transfer.record import (
    everything,
    exported,
    forget_everything,
    make_rich_episodes,
    text_of,
)
from tests.stored import NOW, make_blob, make_environment, make_episode, make_run, make_step

pytestmark = pytest.mark.django_db(transaction=True)

IMAGE = {
    "data": base64.b64encode(b"\x89PNG\r\n\x1a\n").decode(),
    "mimeType": "image/png",
    "detail": None,
    "type": "image",
}
TEXT = {"text": "Look.", "detail": None, "type": "text"}
FORMATS = ["atif", "harbor"]


def output_of(*blocks: dict[str, Any], metadata: Any = None, reward: float | None = None) -> str:
    values = {"blocks": blocks, "metadata": metadata, "reward": reward, "finished": False}
    return json.dumps(values, separators=(",", ":"))


def file_of(tmp_path: Path, format: str) -> Path:
    catch_up()
    path = tmp_path / f"all.{format}"
    path.write_bytes(b"".join(exported(format)))
    return path


def taken_back(path: Path) -> EpisodeImportReport:
    Rollout.objects.all().delete()
    forget_everything()
    report = Import([path]).run()
    assert not report.refusals
    return report


_NOT_COMPARED = ("id", "rollout", "response_characters")
"""The stored messages of these tests have no counts of characters."""


def conversations() -> list[Any]:
    catch_up()
    columns = [
        field.attname
        for field in RolloutMessage._meta.concrete_fields
        if field.name not in _NOT_COMPARED
    ]
    rollouts = [
        field.attname
        for field in Rollout._meta.concrete_fields
        if field.name not in ("id", "run", "hosted_environment")
    ]
    return [
        list(Rollout.objects.order_by("event_id").values(*rollouts)),
        list(RolloutMessage.objects.order_by("rollout__event_id", "index", "id").values(*columns)),
    ]


@pytest.mark.parametrize("format", FORMATS)
def test_every_column_comes_back(tmp_path: Path, format: str) -> None:
    make_rich_episodes()
    before = everything()
    report = taken_back(file_of(tmp_path, format))
    assert (report.imported, report.refused, report.renumbered) == (2, 0, 0)
    assert everything() == before


@pytest.mark.parametrize("format", FORMATS)
def test_a_second_export_has_the_same_bytes(tmp_path: Path, format: str) -> None:
    make_rich_episodes()
    content = (path := file_of(tmp_path, format)).read_bytes()
    taken_back(path)
    assert file_of(tmp_path, format).read_bytes() == content


@pytest.mark.parametrize("format", FORMATS)
def test_a_second_import_changes_nothing(tmp_path: Path, format: str) -> None:
    make_rich_episodes()
    before, path = everything(), file_of(tmp_path, format)
    report = Import([path]).run()
    assert (report.imported, report.skipped, report.refused) == (0, 2, 0)
    assert everything() == before


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    "output",
    [
        output_of(TEXT),
        output_of(TEXT, TEXT, metadata={"answer": 42, "x": [1e20]}, reward=0.5),
        output_of(TEXT, IMAGE),
        output_of(IMAGE | {"mimeType": "image/bmp"}),
        output_of(
            IMAGE | {"mimeType": "image/jpg"}, IMAGE | {"data": ""}, IMAGE | {"data": "QUJD"}
        ),
        output_of(TEXT | {"text": "\ud800 \0"}),
        output_of(),
        '{"blocks": "none"}',
        "no JSON",
    ],
)
def test_an_output_stays_exactly_as_it_is(tmp_path: Path, format: str, output: str) -> None:
    make_step(
        make_episode(),
        output=output,
        reward=json.loads(output).get("reward") if output[0] == "{" else None,
    )
    taken_back(file_of(tmp_path, format))
    assert Step.objects.get().output_json == output


@pytest.mark.parametrize(
    "input", ['{"x": 1e20, "a":-0.0}', '{"a": 1, "a": 2}', "[1]", "no JSON", '{"x": "\\ud800"}', ""]
)
def test_an_input_stays_exactly_as_it_is(tmp_path: Path, input: str) -> None:
    make_step(make_episode(), input=input)
    taken_back(file_of(tmp_path, "atif"))
    assert Step.objects.get().input_json == input


@pytest.mark.parametrize("levels", [170, 185, 191, 195, 198])
@pytest.mark.parametrize("format", [*FORMATS, "jsonl"])
def test_values_near_the_deepest_come_back(tmp_path: Path, format: str, levels: int) -> None:
    nested = "[" * levels + "]" * levels
    value, schema = f'{{"a":{nested}}}', f'{{"type":"object","default":{nested}}}'
    tools = f'{{"tools":[{{"name":"t","description":"","input_schema":{schema}}}]}}'
    prompt = f'[{{"text":"x","detail":{value},"type":"text"}}]'
    task = Task.objects.create(
        environment=make_environment(), content_hash=content_hash(value), spec=value
    )
    run = make_run()
    Run.objects.update(config=value, updated=NOW)
    blobs = {"prompt": make_blob(prompt), "tools": make_blob(tools)}
    episode = make_episode(task=task, run=run, steps_count=2, end_number=1, **blobs)
    output = output_of(TEXT, metadata=json.loads(value))
    make_step(episode, input=value, output=output)
    make_step(episode, input=nested, output=output_of(TEXT | {"detail": json.loads(value)}))
    before = everything()
    assert taken_back(file_of(tmp_path, format)).imported == 1
    assert everything() == before
    assert Run.objects.get().config == json.dumps(json.loads(value))


@pytest.mark.parametrize("format", FORMATS)
def test_a_conversation_comes_back(tmp_path: Path, format: str) -> None:
    played(inputs=('{"text":"hi"}', '{"text":"again"}'))
    rollout = reported(event='{"metadata":{"session_id":"s-1"}}', info='{"loss":[1,0.5]}')
    RolloutMessage.objects.filter(kind="user_message").update(
        extra='{"metadata":{"lang":"en"}}', sent_ms=1
    )
    before, steps = conversations(), everything()["steps"]
    content = (path := file_of(tmp_path, format)).read_bytes()
    taken_back(path)
    assert conversations() == before
    assert everything()["steps"] == steps
    assert file_of(tmp_path, format).read_bytes() == content
    assert rollout.event_id == Rollout.objects.get().event_id


def test_a_prompt_in_messages_comes_back(tmp_path: Path) -> None:
    prompt = '[{"role": "system", "blocks": [{"type": "text", "text": "Be brief."}]}]'
    make_step(make_episode(prompt=make_blob(prompt), steps_count=1, end_number=1))
    before = everything()
    taken_back(file_of(tmp_path, "atif"))
    assert everything() == before


def test_the_lossless_lines_of_both_are_the_same(tmp_path: Path) -> None:
    make_rich_episodes()
    before = text_of()
    taken_back(file_of(tmp_path, "harbor"))
    assert text_of() == before
