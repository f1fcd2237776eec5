"""ExactRenderer: JSON in which recorded texts stand as they are.

Specs, prompts, inputs and outputs are kept as exact JSON text. Read and written again, 1e20 and -0.0 would come out as
other texts, so they are put into the answer unread.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from typing import Any

from rest_framework.renderers import BaseRenderer

_MARK = secrets.token_hex(16)
"""Stands for an exact text while the rest is written. Of this process alone, so that nothing recorded holds it."""
_MARKED = re.compile(f'"{_MARK}:(\\d+)"')


class Exact:
    """JSON text that goes into the answer as it is; empty: null."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text or "null"


def exact_json(value: Any) -> str:
    """JSON of a value whose members may be Exact. ASCII, but for what stands in those."""
    texts: list[str] = []

    def mark(member: Any) -> str:
        if not isinstance(member, Exact):
            raise TypeError(f"{type(member).__name__} has no JSON form here")
        texts.append(member.text)
        return f"{_MARK}:{len(texts) - 1}"

    written = json.dumps(value, default=mark, allow_nan=False)
    return _MARKED.sub(lambda found: texts[int(found[1])], written) if texts else written


class ExactRenderer(BaseRenderer):
    media_type = "application/json"
    format = "json"
    charset = None

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        return b"" if data is None else exact_json(data).encode("utf-8", "replace")
