"""Finds problems in the blocks of prompts and tool outputs, and reads their text."""

from __future__ import annotations

from typing import Any

from environments.display.images import image_problem
from environments.wire import BLOCKS


def problem_of(blocks: Any) -> str:
    """Return what is wrong with `blocks`, as a sentence without subject and full stop, or an empty
    text."""
    try:
        content = BLOCKS.validate_python(blocks)
    except ValueError as error:
        return f"is not a list of text and image blocks: {' '.join(str(error).split())}"
    if not any(block.type == "image" or block.text.strip() for block in content):
        return "is empty"
    images = (block for block in content if block.type == "image")
    problems = (image_problem(image.mimeType, image.data) for image in images)
    return next(
        (f"has an image that models cannot take: {problem}" for problem in problems if problem), ""
    )


def text_of(blocks: Any) -> str:
    return "\n".join(block["text"] for block in blocks if block.get("type") == "text")
