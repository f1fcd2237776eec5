"""Finds problems in the blocks of prompts and tool outputs, and reads their text."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from environments.wire import BLOCKS

_STARTS = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
}


def problem_of(blocks: Any) -> str:
    """Return what is wrong with `blocks`, as a sentence without subject and full stop, or an empty text."""
    try:
        checked = BLOCKS.validate_python(blocks)
    except ValueError as error:
        return f"is not a list of text and image blocks: {' '.join(str(error).split())}"
    if not any(block.type == "image" or block.text.strip() for block in checked):
        return "is empty"
    return next((text for block in blocks if block["type"] == "image" and (text := _image_problem(block))), "")


def _image_problem(block: dict[str, Any]) -> str:
    try:
        data = base64.b64decode(block["data"], validate=True)
    except (binascii.Error, ValueError) as error:
        return f"has an image whose data is not base64 ({error})"
    kind = block["mimeType"]
    if not kind.startswith("image/"):
        return f"has an image of type {kind!r}; use image/png, image/jpeg, image/gif or image/webp"
    if kind in _STARTS and not data.startswith(_STARTS[kind]):
        return f"has an image of type {kind} that starts with {data[:8]!r}"
    return ""


def text_of(blocks: Any) -> str:
    return "\n".join(block["text"] for block in blocks if block.get("type") == "text")
