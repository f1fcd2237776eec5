"""ExactRenderer: JSON that contains recorded JSON texts unchanged.

Specs, prompts, inputs and outputs are stored as exact JSON text. Parsing and serializing would
change texts such as 1e20 and -0.0, so they are inserted into the response without parsing.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from typing import Any

from rest_framework.renderers import BaseRenderer

_MARK = secrets.token_hex(16)
"""Placeholder for an exact text while the rest is serialized. Random for each process, so no
recorded text has it."""
_MARKED = re.compile(f'"{_MARK}:(\\d+)"')


class Exact:
    """JSON text that goes into the response unchanged; an empty text becomes null."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text or "null"


def exact_json(value: Any) -> str:
    """Return the JSON of a value whose members may be Exact. It is ASCII except for the texts of
    these."""
    texts: list[str] = []

    def mark(member: Any) -> str:
        if not isinstance(member, Exact):
            raise TypeError(f"{type(member).__name__} cannot be written as JSON")
        texts.append(member.text)
        return f"{_MARK}:{len(texts) - 1}"

    text = json.dumps(value, default=mark, allow_nan=False)
    return _MARKED.sub(lambda match: texts[int(match[1])], text) if texts else text


class ExactRenderer(BaseRenderer):
    media_type = "application/json"
    format = "json"
    charset = None

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        return b"" if data is None else exact_json(data).encode("utf-8", "replace")
