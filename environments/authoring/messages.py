"""Conversions between the two forms of a task's prompt: a list of blocks and a conversation of
messages.

Source: openreward 0.1.167, `flatten_messages` and the defaults of `get_prompt` and `get_messages`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from environments.wire import Blocks, ImageBlock, Message, TextBlock


def as_messages(blocks: Blocks) -> list[Message]:
    """Return the conversation that consists of `blocks` as a single user message."""
    return [Message(role="user", blocks=list(blocks))]


def as_blocks(messages: Sequence[Message]) -> list[TextBlock | ImageBlock]:
    """Return the conversation as blocks.

    A single user message of text and images is returned as its own blocks. Otherwise each message
    is preceded by a header block `[role]`.
    """
    if len(messages) == 1 and messages[0].role == "user":
        plain = [block for block in messages[0].blocks if isinstance(block, TextBlock | ImageBlock)]
        if len(plain) == len(messages[0].blocks):
            return plain
    flat: list[TextBlock | ImageBlock] = []
    for message in messages:
        flat.append(TextBlock(text=f"[{message.role}]", detail={"role": message.role}))
        for block in message.blocks:
            flat.extend(_flatten(block))
    return flat


def _flatten(block: Any) -> list[TextBlock | ImageBlock]:
    if block.type == "reasoning":
        return [TextBlock(text=f"<think>{block.text}</think>", detail={"type": "reasoning"})]
    if block.type == "tool_call":
        text = f"[tool_call {block.name}] {json.dumps(block.input)}"
        return [TextBlock(text=text, detail={"type": "tool_call", "id": block.id})]
    if block.type == "tool_result":
        title = "[tool_result (error)]" if block.is_error else "[tool_result]"
        header = TextBlock(
            text=title, detail={"type": "tool_result", "tool_call_id": block.tool_call_id}
        )
        return [header, *block.blocks]
    return [block]
