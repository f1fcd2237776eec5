"""Spec: a task's content as the text that is stored, whether people typed it or brought it in a file.

The text is ASCII, so it may tell of characters that no database keeps (NUL, halves of surrogate pairs): as escapes.
"""

from __future__ import annotations

from typing import Any

from environments.wire import check_depth, object_json

MAX_BYTES = 8 * 1024 * 1024
"""A spec is held in memory and written in one transaction."""
TOO_LONG = f"is longer than {MAX_BYTES // 1024**2} MiB, the most that a task may take"


class Unfit(ValueError):
    """Why an object can be no task, as the end of the sentence "line 3: …"."""


def spec_text(spec: dict[str, Any]) -> str:
    """The spec as it is stored, compact ASCII in its own key order. Raises: Unfit."""
    try:
        check_depth(spec)
        text = object_json(spec)
    except ValueError as error:
        raise Unfit(_advice(str(error))) from error
    except (TypeError, RecursionError) as error:
        raise Unfit(f"has no JSON form: {error}") from error
    if len(text) > MAX_BYTES:
        raise Unfit(TOO_LONG)
    return text


def _advice(message: str) -> str:
    if message.startswith("Out of range float"):
        return "holds NaN, an infinity or a number beyond 1.8e308; write a finite number or null"
    return f"cannot be kept: {message}"
