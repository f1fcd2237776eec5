"""Tests of the content of each format."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from episodes.models import Episode, EpisodeComponent, RewardComponent
from episodes.transfer.exporting import exported
from episodes.transfer.thresholds import narrowed
from tests.episodes.transfer.record import PROMPT, TOOLS, make_rich_episodes, text_of
from tests.stored import make_blob, make_environment, make_episode, make_step, make_task

pytestmark = pytest.mark.django_db

IMAGE = '{"blocks": [{"type": "text", "text": "see"}, {"type": "image", "mimeType": "image/png", "data": "QUJD"}]}'
TURNS = [
    {"role": "system", "blocks": [{"type": "text", "text": "Be brief."}]},
    {"role": "assistant", "blocks": [{"type": "tool_call", "id": "c", "name": "look", "input": {"at": 1}}]},
    {
        "role": "user",
        "blocks": [{"type": "tool_result", "tool_call_id": "c", "blocks": [{"type": "text", "text": "a"}]}],
    },
]


def messages_of(**options: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text_of("messages", **options).splitlines()]


def test_csv_has_a_column_for_each_component_of_rewards() -> None:
    first, second = make_episode(id=1), make_episode(id=2)
    component = RewardComponent.objects.create(environment_id=first.environment_id, name="format")
    RewardComponent.objects.create(environment_id=make_environment("other").pk, name="unused")
    figures = {"value_sum": 1.5, "value_last": 0.5, "value_max": 1.0, "value_mean": 0.75}
    EpisodeComponent.objects.create(episode=second, component=component, **figures)
    rows = list(csv.DictReader(io.StringIO(text_of("csv"), newline="")))
    assert [row["component:format"] for row in rows] == ["", "1.5"]
    assert "component:unused" not in rows[0]


def test_parquet_has_the_components_of_each_step() -> None:
    episode = make_episode(id=1)
    make_step(episode)
    make_step(episode, output='{"blocks": [], "metadata": {"rewards": {"format": 0.5}}}')
    file = io.BytesIO(b"".join(exported(Episode.objects.all(), "parquet")))  # type: ignore[arg-type]
    assert pq.read_table(file)["reward_components"].to_pylist() == [None, [("format", 0.5)]]


def test_csv_has_a_row_an_episode_and_no_formulas() -> None:
    make_episode(id=1, session_id="=HYPERLINK(1)", detail="-1+2", return_sum=-0.5, is_probe=True, model='a,b\n"c"')
    [row] = csv.DictReader(io.StringIO(text_of("csv"), newline=""))
    assert (row["episode"], row["environment"], row["return_sum"], row["is_probe"]) == ("1", "math", "-0.5", "true")
    assert (row["session_id"], row["detail"], row["model"]) == ("'=HYPERLINK(1)", "'-1+2", 'a,b\n"c"')
    assert (row["run"], row["return_last"], row["created"]) == ("", "", "2026-01-02T03:04:05+00:00")


def test_parquet_has_a_row_a_step_with_the_facts_of_its_episode() -> None:
    make_rich_episodes()
    data = b"".join(exported(Episode.objects.all(), "parquet"))
    rows = pq.read_table(io.BytesIO(data)).to_pylist()
    assert [(row["episode"], row["index"], row["status"], row["tool"]) for row in rows] == [
        (7, 0, "ok", "submit"),
        (7, 1, "failed", "submit"),
        (7, 2, "refused", "nø"),
    ]
    assert (rows[0]["run"], rows[0]["return_mean"], rows[0]["reward"], rows[1]["reward"]) == (
        "grpo-3",
        5e-324,
        -0.1,
        None,
    )
    assert rows[0]["input"] == f'"{"y" * 9000}"'


def test_messages_are_the_prompt_and_each_call_with_its_answer() -> None:
    episode = make_episode(id=5, prompt=make_blob(PROMPT), tools=make_blob(TOOLS), return_sum=1.0, return_max=3.0)
    make_step(episode, "wrong", input='{"answer":  5}')
    make_step(episode, status="refused", output="", error="no such tool", tool="sumbit")
    [line] = messages_of()
    function = {"name": "submit", "arguments": '{"answer":  5}'}
    assert line["messages"][:3] == [
        {"role": "user", "content": "2 + 2?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_0", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "call_0", "content": "wrong"},
    ]
    assert line["messages"][4]["content"] == "no such tool"
    parameters = {"type": "object", "properties": {}}
    described = {"name": "submit", "description": "Answer.", "parameters": parameters}
    assert line["tools"] == [{"type": "function", "function": described}]
    assert (line["reward"], line["episode"], messages_of(definition="max")[0]["reward"]) == (1.0, 5, 3.0)


def test_an_image_is_a_data_uri() -> None:
    make_step(make_episode(), output=IMAGE)
    [line] = messages_of()
    assert line["messages"][-1]["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
    ]


def test_a_prompt_of_messages_keeps_its_roles() -> None:
    make_step(make_episode(prompt=make_blob(json.dumps(TURNS))))
    [line] = messages_of()
    assert [message["role"] for message in line["messages"]] == ["system", "assistant", "tool", "assistant", "tool"]
    assert line["messages"][1]["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"at": 1}'}
    assert line["messages"][2] == {"role": "tool", "tool_call_id": "c", "content": "a"}


@pytest.mark.parametrize(
    "text", ["null", "3", "no JSON", '{"a": 1}', "[1, null]", '[{"type": "text"}]', '[{"role": 1, "blocks": 2}]']
)
def test_odd_texts_are_exported_too(text: str) -> None:
    make_step(make_episode(prompt=make_blob(text), tools=make_blob(text)), output=text, input=text)
    [line] = messages_of()
    assert line["messages"][-2]["tool_calls"][0]["function"]["arguments"] == text


def test_an_episode_without_a_call_is_no_conversation() -> None:
    make_episode()
    assert messages_of() == []


def pairs_of(**options: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text_of("pairs", **options).splitlines()]


def attempt(task: Any, value: float | None, answer: str = "", **facts: Any) -> Episode:
    episode = make_episode(task=task, return_sum=value or 0.0, return_last=value, steps_count=1, **facts)
    make_step(episode, answer or f"scored {value}")
    return episode


def test_pairs_are_the_best_and_the_worst_attempt_of_a_task() -> None:
    task, prompt = make_task(), make_blob(PROMPT)
    episodes = [attempt(task, value, prompt=prompt) for value in (0.5, 1.0, 0.0, 1.0, 0.0)]
    attempt(task, -9.0, prompt=prompt, is_probe=True)
    attempt(task, -9.0, prompt=prompt, cause="env_error")
    [pair] = pairs_of()
    assert pair["prompt"] == [{"role": "user", "content": "2 + 2?"}]
    assert (pair["chosen"][1]["content"], pair["rejected"][1]["content"]) == ("scored 1.0", "scored 0.0")
    assert (pair["chosen_episode"], pair["rejected_episode"]) == (episodes[1].pk, episodes[2].pk)
    assert (pair["chosen_reward"], pair["rejected_reward"], pair["task"]) == (1.0, 0.0, task.content_hash)


def test_what_cannot_be_compared_is_no_pair() -> None:
    alone, equal, other = make_task(), make_task(), make_task()
    attempt(alone, 1.0)
    attempt(equal, 1.0), attempt(equal, 1.0)
    attempt(other, 1.0, prompt=make_blob(PROMPT)), attempt(other, 0.0, prompt=make_blob("[]"))
    make_episode(task=alone, return_sum=0.0)
    assert pairs_of() == []


def test_a_margin_leaves_out_close_pairs() -> None:
    near, far = make_task(), make_task()
    attempt(near, 0.5), attempt(near, 0.6)
    attempt(far, 0.0), attempt(far, 1.0)
    assert [pair["chosen_reward"] for pair in pairs_of(margin=0.5)] == [1.0]


def test_a_return_that_is_not_there_is_not_compared() -> None:
    task = make_task()
    attempt(task, None), attempt(task, 0.2), attempt(task, 0.7)
    assert [(pair["chosen_reward"], pair["rejected_reward"]) for pair in pairs_of(definition="last")] == [(0.7, 0.2)]


def test_thresholds_go_by_each_environments_own_definition() -> None:
    strict = make_environment("strict", default_return="max", success_threshold=2.0)
    good = make_episode(task=make_task(environment=strict), return_sum=0.0, return_max=3.0)
    make_episode(task=make_task(environment=strict), return_sum=9.0, return_max=1.0)
    plain = make_episode(return_sum=1.0)
    make_episode(return_sum=1.0, cause="interrupted")
    successes = narrowed(Episode.objects.all(), None, only_successes=True)
    assert set(successes) == {good, plain}
    assert set(narrowed(Episode.objects.all(), None, least=2.5)) == {good}
    assert narrowed(Episode.objects.all(), "sum", least=2.5).count() == 1
