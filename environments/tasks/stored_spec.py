"""The text under which a task's content is stored when people typed it or imported it from a file.

The text is ASCII, so that characters which no database stores (NUL, lone surrogates) can appear in
it as escapes.
"""

from __future__ import annotations

from typing import Any

from environments.errors import shorten
from environments.wire import check_depth, infinite_place, object_json

MAX_BYTES = 8 * 1024 * 1024
"""Limit of a spec, which is held in memory and written in one transaction."""
TOO_LONG = f"is longer than {MAX_BYTES // 1024**2} MiB, the limit for a task"


class Unfit(ValueError):
    """An object cannot be a task. The message completes the sentence "line 3: …"."""


def spec_text(spec: dict[str, Any]) -> str:
    """Return the spec as it is stored: compact ASCII JSON in the spec's own key order. Raises:
    Unfit."""
    try:
        check_depth(spec)
        text = object_json(spec)
    except ValueError as error:
        if str(error).startswith("Out of range float"):
            raise Unfit(
                "holds NaN, an infinity or a number beyond 1.8e308 in "
                f"{shorten(repr(infinite_place(spec)), 100)}; write a finite number or null"
            ) from error
        raise Unfit(f"cannot be stored: {error}") from error
    except (TypeError, RecursionError) as error:
        raise Unfit(f"has no JSON form: {error}") from error
    if len(text) > MAX_BYTES:
        raise Unfit(TOO_LONG)
    return text
