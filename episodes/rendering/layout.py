"""JSON on lines of its own, without reading it into values: numbers stay as they were written, keys in their order."""

from __future__ import annotations

import json
import re

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_DEEPEST = 20
"""Levels that are indented; those within stand where their parents do."""


def laid_out(text: str) -> str:
    """Valid JSON, two blanks a level, a member or item a line; empty ones stay closed."""
    tokens = _TOKEN.findall(text)
    pieces: list[str] = []
    depth = 0
    for token, following in zip(tokens, [*tokens[1:], ""], strict=True):
        is_empty = token in ("{", "[") and following in ("}", "]")
        if token in ("}", "]") and pieces[-1] not in ("{", "["):
            depth -= 1
            pieces.append(_line(depth))
        pieces.append(_readable(token))
        if token in ("{", "[") and not is_empty:
            depth += 1
            pieces.append(_line(depth))
        elif token == ",":
            pieces.append(_line(depth))
        elif token == ":":
            pieces.append(" ")
    return "".join(pieces)


def _line(depth: int) -> str:
    return "\n" + "  " * min(depth, _DEEPEST)


def _readable(token: str) -> str:
    """Letters instead of escapes; what has to be escaped in JSON stays so."""
    return json.dumps(json.loads(token), ensure_ascii=False) if token.startswith('"') else token
