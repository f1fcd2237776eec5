"""Tests of conversations and pairs for training."""

from __future__ import annotations

import json
from typing import Any

import pytest

from environments.filtering.parameters import BadFilter
from environments.scoring.definition import DefinitionOverrides
from episodes.models import Episode
from episodes.transfer.export_file import ExportFile
from episodes.transfer.training_options import TrainingOptions
from tests.episodes.transfer.record import PROMPT, TOOLS, exported, training_rows
from tests.images import BAD_IMAGES
from tests.rows import each
from tests.stored import make_blob, make_episode, make_step, make_task

pytestmark = pytest.mark.django_db

IMAGE_BLOCK = {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="}
URI = "data:image/png;base64,iVBORw0KGgo="
SEE = json.dumps({"blocks": [{"type": "text", "text": "see"}, IMAGE_BLOCK]})
SEEN_PROMPT = json.dumps([{"type": "text", "text": "What is this?"}, IMAGE_BLOCK])
TURNS = [
    {"role": "system", "blocks": [{"type": "text", "text": "Be brief."}]},
    {
        "role": "assistant",
        "blocks": [{"type": "tool_call", "id": "c", "name": "look", "input": {"at": 1}}],
    },
    {
        "role": "user",
        "blocks": [
            {"type": "tool_result", "tool_call_id": "c", "blocks": [{"type": "text", "text": "a"}]}
        ],
    },
]
OPENAI = {"arguments": "string", "images": "url"}


def messages_of(**options: str) -> list[dict[str, Any]]:
    return training_rows("messages", options)


def contents_of(**options: str) -> list[tuple[str, Any]]:
    [line] = messages_of(**options)
    return [(message["role"], message["content"]) for message in line["messages"]]


def text(content: str) -> dict[str, str]:
    return {"type": "text", "text": content}


def test_a_conversation_is_the_prompt_and_each_call_with_its_answer() -> None:
    episode = make_episode(
        id=5, prompt=make_blob(PROMPT), tools=make_blob(TOOLS), return_sum=1.0, return_max=3.0
    )
    make_step(episode, "wrong", input='{"answer":  5}')
    make_step(episode, status="refused", output="", error="no such tool", tool="sumbit")
    [line] = messages_of(final_output="yes")
    function = {"name": "submit", "arguments": {"answer": 5}}
    assert line["messages"][:3] == [
        {"role": "user", "content": "2 + 2?"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "call_0", "type": "function", "function": function}],
        },
        {"role": "tool", "content": "wrong", "tool_call_id": "call_0", "name": "submit"},
    ]
    assert line["messages"][4]["content"] == "no such tool"
    parameters = {"type": "object", "properties": {}}
    described = {"name": "submit", "description": "Answer.", "parameters": parameters}
    assert line["tools"] == [{"type": "function", "function": described}]
    assert (line["reward"], line["episode"], line["prompt_source"]) == (1.0, 5, "recorded")
    assert training_rows("messages", definition=DefinitionOverrides("max"))[0]["reward"] == 3.0


def test_in_openais_format_arguments_are_the_exact_text_and_tool_messages_have_no_name() -> None:
    make_step(make_episode(), input='{"answer":  5}')
    [line] = messages_of(**OPENAI, final_output="yes")
    call, answer = line["messages"]
    assert call["tool_calls"][0]["function"] == {"name": "submit", "arguments": '{"answer":  5}'}
    assert call["content"] is None and answer.keys() == {"role", "content", "tool_call_id"}


def test_tools_can_be_one_text() -> None:
    make_step(make_episode(tools=make_blob(TOOLS)))
    [line], [plain] = messages_of(tools="text"), messages_of()
    assert json.loads(line["tools"]) == plain["tools"]


def test_a_conversation_ends_with_the_assistants_last_turn() -> None:
    episode = make_episode()
    make_step(episode, "not yet"), make_step(episode, "Correct.", finished=True)
    make_step(episode, status="refused", output="", error="the episode has finished")
    assert [role for role, _ in contents_of()] == ["assistant", "tool", "assistant"]
    assert contents_of(final_output="yes")[-1] == ("tool", "the episode has finished")


@pytest.mark.parametrize(
    "input", ["", "3", "null", "no JSON", '{"a": NaN}', '{"a": 1e999}', f'{{"a": {2**63}}}', f'{{"a": {"9" * 5000}}}',
              '{"a": "\\ud800"}', "[" * 100_000],
)  # fmt: skip
def test_a_call_that_is_no_object_is_left_out_with_its_episode(input: str) -> None:
    make_step(make_episode(id=1)), make_step(make_episode(id=2), input=input)
    file = ExportFile(Episode.objects.all())
    [line] = b"".join(exported("messages", file)).splitlines()
    assert json.loads(line)["episode"] == 1
    assert file.left_out == 1
    [_, line] = messages_of(arguments="string")
    assert line["messages"][0]["tool_calls"][0]["function"]["arguments"] == input


@pytest.mark.parametrize(
    "input", ["{}", f'{{"a": {-(2**63) + 1}, "b": [1e20, -0.0, {{}}], "c": "\\ud83d\\ude42"}}']
)
def test_any_other_object_is_what_it_was(input: str) -> None:
    make_step(make_episode(), input=input)
    [line] = messages_of()
    assert line["messages"][0]["tool_calls"][0]["function"]["arguments"] == json.loads(input)


def make_seen_episode() -> None:
    episode = make_episode(prompt=make_blob(SEEN_PROMPT))
    make_step(episode, output=SEE), make_step(episode)


def test_images_are_left_to_a_text_unless_they_are_wanted() -> None:
    make_seen_episode()
    assert contents_of() == [
        ("user", "What is this?\n[image]"), ("assistant", ""), ("tool", "see\n[image]"), ("assistant", ""),
    ]  # fmt: skip


def test_images_of_a_column_have_their_places_in_user_messages() -> None:
    make_seen_episode()
    assert contents_of(images="column") == [
        ("user", [text("What is this?"), {"type": "image"}]),
        ("assistant", []),
        ("tool", [text("see"), text("[image]")]),
        ("user", [{"type": "image"}]),
        ("assistant", []),
    ]
    assert messages_of(images="column")[0]["images"] == [URI, URI]


@pytest.mark.parametrize(("kind", "data"), BAD_IMAGES)
def test_an_image_that_no_model_takes_is_a_text(kind: str, data: str) -> None:
    prompt = json.dumps([{"type": "image", "mimeType": kind, "data": data}])
    make_step(
        make_episode(prompt=make_blob(prompt)), output=json.dumps({"blocks": json.loads(prompt)})
    )
    for images in ("column", "url"):
        contents = [
            content
            for role, content in contents_of(images=images, final_output="yes")
            if role != "assistant"
        ]
        assert contents == [[text("[image]")], [text("[image]")]]


def test_openais_images_are_urls_in_user_messages() -> None:
    make_seen_episode()
    image = {"type": "image_url", "image_url": {"url": URI}}
    assert [content for role, content in contents_of(**OPENAI) if role == "user"] == [
        [text("What is this?"), image], [image],
    ]  # fmt: skip


def test_an_image_of_the_last_output_follows_it() -> None:
    make_step(make_episode(), output=SEE)
    assert [role for role, _ in contents_of(images="column", final_output="yes")] == [
        "assistant",
        "tool",
        "user",
    ]


def test_images_before_a_users_message_become_part_of_it() -> None:
    turns = [
        {"role": "system", "blocks": [IMAGE_BLOCK]},
        {"role": "user", "blocks": [{"type": "text", "text": "hi"}]},
    ]
    make_step(make_episode(prompt=make_blob(json.dumps(turns))))
    assert contents_of(images="column")[:2] == [
        ("system", [text("[image]")]),
        ("user", [{"type": "image"}, text("hi")]),
    ]


@pytest.mark.parametrize("images", ["text", "column", "url"])
def test_contents_have_one_shape_in_a_file(images: str) -> None:
    make_seen_episode(), make_step(make_episode(prompt=make_blob(PROMPT)))
    contents = [
        message["content"] for line in messages_of(images=images) for message in line["messages"]
    ]
    shape = str if images == "text" else list
    assert all(
        isinstance(content, shape) or (images == "url" and content is None) for content in contents
    )


def test_a_prompt_of_messages_keeps_its_roles() -> None:
    make_step(make_episode(prompt=make_blob(json.dumps(TURNS))))
    [line] = messages_of()
    assert [message["role"] for message in line["messages"]] == [
        "system",
        "assistant",
        "tool",
        "assistant",
    ]
    assert line["messages"][1]["tool_calls"][0]["function"] == {
        "name": "look",
        "arguments": {"at": 1},
    }
    assert line["messages"][2] == {"role": "tool", "tool_call_id": "c", "content": "a"}


@pytest.mark.parametrize(
    "odd",
    [
        "null",
        "3",
        "no JSON",
        '{"a": 1}',
        "[1, null]",
        '[{"type": "text"}]',
        '[{"role": 1, "blocks": 2}]',
    ],
)
def test_odd_texts_are_exported_too(odd: str) -> None:
    make_step(make_episode(prompt=make_blob(odd), tools=make_blob(odd)), output=odd, input=odd)
    [line] = messages_of(arguments="string", final_output="yes")
    assert line["messages"][-2]["tool_calls"][0]["function"]["arguments"] == odd
    assert all(isinstance(message["content"], str) for message in line["messages"])


def test_what_would_make_a_file_unreadable_is_replaced() -> None:
    schema = {"properties": {"n": {"maximum": 10**30, "default": float("nan"), "title": "\ud800"}}}
    tools = make_blob(json.dumps({"tools": [{"name": "submit", "input_schema": schema}]}))
    make_step(
        make_episode(
            prompt=make_blob('[{"type": "text", "text": "\\ud800 \\ud83d\\ude42"}]'), tools=tools
        )
    )
    [line] = messages_of()
    assert line["messages"][0]["content"] == "\ufffd \N{SLIGHTLY SMILING FACE}"
    number = line["tools"][0]["function"]["parameters"]["properties"]["n"]
    assert number == {"maximum": 1e30, "default": None, "title": "\ufffd"}


def test_an_episode_without_a_call_is_no_conversation() -> None:
    make_episode()
    assert messages_of() == []


@each("name", ["arguments", "tools", "images", "final_output"])
def test_an_unknown_choice_is_refused_with_what_is_allowed(name: str) -> None:
    with pytest.raises(BadFilter, match="allowed are"):
        TrainingOptions.parse({name: "best"})


def pairs_of(options: dict[str, str] | None = None, **further: Any) -> list[dict[str, Any]]:
    return training_rows("pairs", options, **further)


def attempt(task: Any, value: float | None, answer: str = "", **facts: Any) -> Episode:
    episode = make_episode(
        task=task, return_sum=value or 0.0, return_last=value, steps_count=1, **facts
    )
    make_step(
        episode, answer or f"scored {value}", input=json.dumps({"answer": value}), finished=True
    )
    return episode


def test_pairs_are_the_best_and_the_worst_attempt_of_a_task() -> None:
    task, prompt = make_task(), make_blob(PROMPT)
    episodes = [attempt(task, value, prompt=prompt) for value in (0.5, 1.0, 0.0, 1.0, 0.0)]
    attempt(task, -9.0, prompt=prompt, is_probe=True)
    attempt(task, -9.0, prompt=prompt, cause="env_error")
    [pair] = pairs_of()
    assert pair["prompt"] == [{"role": "user", "content": "2 + 2?"}]
    calls = [pair[side][0]["tool_calls"][0]["function"] for side in ("chosen", "rejected")]
    assert [call["arguments"] for call in calls] == [{"answer": 1.0}, {"answer": 0.0}]
    assert (pair["chosen_episode"], pair["rejected_episode"]) == (episodes[1].pk, episodes[2].pk)
    assert (pair["chosen_reward"], pair["rejected_reward"], pair["task"]) == (
        1.0,
        0.0,
        task.content_hash,
    )


def test_no_words_of_a_grader_are_in_a_completion() -> None:
    task = make_task()
    for value, verdict in ((1.0, "Correct."), (0.0, "Wrong.")):
        episode = make_episode(task=task, return_sum=value, steps_count=2)
        make_step(episode, "a clue"), make_step(episode, verdict, finished=True)
        make_step(episode, status="refused", output="", error=f"Over: {verdict}")
    [pair] = pairs_of({"final_output": "yes"})
    assert [message["role"] for message in pair["chosen"]] == ["assistant", "tool", "assistant"]
    assert not any(
        word in json.dumps([pair["chosen"], pair["rejected"]]) for word in ("Correct", "Wrong")
    )


def test_images_of_completions_are_texts_where_trainers_take_those_of_the_prompt_only() -> None:
    task, prompt = make_task(), make_blob(SEEN_PROMPT)
    for value in (0.0, 1.0):
        episode = make_episode(task=task, prompt=prompt, return_sum=value, steps_count=2)
        make_step(episode, output=SEE), make_step(episode)
    [pair] = pairs_of({"images": "column"})
    assert pair["images"] == [URI]
    assert (
        pair["chosen"][1]["content"]
        == pair["rejected"][1]["content"]
        == [text("see"), text("[image]")]
    )


def test_a_pair_with_a_call_that_is_no_object_is_left_out_and_the_next_one_is_whole() -> None:
    for _ in range(2):
        task = make_task()
        attempt(task, 1.0), attempt(task, 0.0)
    first = Episode.objects.order_by("pk")[0]
    first.steps.update(input="oops")
    file = ExportFile(Episode.objects.all())
    [pair] = map(json.loads, b"".join(exported("pairs", file)).splitlines())
    assert (pair["chosen_reward"], pair["rejected_reward"], file.left_out) == (1.0, 0.0, 1)


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
    assert [
        (pair["chosen_reward"], pair["rejected_reward"])
        for pair in pairs_of(definition=DefinitionOverrides("last"))
    ] == [(0.7, 0.2)]


def test_an_attempt_with_a_reward_that_was_not_a_number_is_not_compared() -> None:
    task = make_task()
    (
        attempt(task, 0.0, detail="Step 0: reward was not a number."),
        attempt(task, 0.2),
        attempt(task, 0.7),
    )
    assert [(pair["chosen_reward"], pair["rejected_reward"]) for pair in pairs_of()] == [(0.7, 0.2)]
    assert [row["reward"] for row in training_rows("messages")] == [None, 0.2, 0.7]


def test_pairs_and_rewards_follow_the_convention() -> None:
    task = make_task()
    attempt(task, 0.5), attempt(task, 0.7, cause="expired")
    rewards = [(pair["chosen_reward"], pair["rejected_reward"]) for pair in pairs_of()]
    assert rewards == [(0.7, 0.5)]
    zero = DefinitionOverrides(expired="zero")
    assert [
        (pair["chosen_reward"], pair["rejected_reward"]) for pair in pairs_of(definition=zero)
    ] == [(0.5, 0.0)]
    assert [row["reward"] for row in training_rows("messages", definition=zero)] == [0.5, 0.0]
    assert pairs_of(definition=DefinitionOverrides(expired="out")) == []
