"""Conversion between prompts and conversations."""

from __future__ import annotations

import json

from environments.authoring.messages import as_blocks, as_messages
from environments.wire import ImageBlock, Message, TextBlock
from tests.environments.runtime.play import Play, within
from tests.envs import Conversation, Echo

HI = TextBlock(text="hi")


def test_a_prompt_is_one_user_message() -> None:
    assert as_messages([HI]) == [Message(role="user", blocks=[HI])]


def test_a_lone_user_message_is_its_blocks() -> None:
    blocks = [HI, ImageBlock(data="", mimeType="image/png")]
    assert as_blocks([Message(role="user", blocks=blocks)]) == blocks


def test_a_lone_message_of_another_role_keeps_its_header() -> None:
    assert [
        block.text
        for block in as_blocks([Message(role="system", blocks=[HI])])
        if block.type == "text"
    ] == [
        "[system]",
        "hi",
    ]


def test_a_conversation_becomes_blocks_turn_by_turn() -> None:
    flat = as_blocks(Conversation().get_messages())
    assert [getattr(block, "text", block.type) for block in flat] == [
        "[system]",
        "Be brief.",
        "[assistant]",
        "<think>I must look.</think>",
        '[tool_call look] {"far": true}',
        "[user]",
        "[tool_result]",
        "image",
        "And now?",
    ]


async def test_an_environment_with_messages_has_a_prompt() -> None:
    async with Play(Conversation) as play:
        await play.open("s")
        prompt = json.loads(await within(play.service.prompt_json("s", "", None)))
    assert prompt[0] == {"text": "[system]", "detail": {"role": "system"}, "type": "text"}


async def test_an_environment_with_a_prompt_has_messages() -> None:
    async with Play(Echo) as play:
        await play.open("s")
        [message] = json.loads(await within(play.service.messages_json("s", "", None)))
    assert (message["role"], message["detail"], message["blocks"][0]["text"]) == (
        "user",
        None,
        "Task s.",
    )
