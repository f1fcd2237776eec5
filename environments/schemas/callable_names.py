"""Names of tools in the form that the APIs of model providers accept.

Documented rules (OpenAI's function calling, Anthropic's tool use, Google's function calling): a
name has up to 64 letters, digits, `_` and `-`; Google's starts with a letter or `_`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

CALLABLE_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_REFUSED = re.compile(r"[^a-zA-Z0-9_-]")
_DIGEST_CHARACTERS = 8
_REPLACED = re.compile(rf"-[0-9a-f]{{{_DIGEST_CHARACTERS}}}\Z")


def callable_name(name: str, *, needs_letter: bool = False) -> str:
    """Return a name that providers accept: the name itself, or one that ends in its digest.

    needs_letter: whether it has to start with a letter or `_`.
    """
    start = _REFUSED.sub("_", name)
    if needs_letter and not re.match(r"[a-zA-Z_]", start):
        start = f"_{start}"
    if start == name and CALLABLE_NAME.fullmatch(name):
        return name
    digest = blake2b(
        name.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_CHARACTERS // 2
    ).hexdigest()
    return f"{start[: 63 - _DIGEST_CHARACTERS]}-{digest}"


def is_replaced(name: str) -> bool:
    """Return whether a name may stand for another, by the digest at its end."""
    return bool(_REPLACED.search(name))


def tool_called(name: str, tools: Iterable[str]) -> str:
    """Return the tool whose `callable_name` a client sent; the name itself if there is none."""
    names = {
        callable_name(tool, needs_letter=is_google): tool
        for tool in tools
        for is_google in (True, False)
    }
    return names.get(name, name)


def tool_names(listing: Mapping[str, Any]) -> list[str]:
    """Return the names of the tools in a ListToolsOutput, the terminal tool's among them."""
    ending = listing.get("terminal_tool")
    return [tool["name"] for tool in [*listing["tools"], *([ending] if ending else [])]]


def uncallable_names(names: Iterable[str]) -> list[str]:
    """Return a sentence for each name that the APIs of models refuse."""
    return [
        f"Tool name {name!r} is not accepted by the APIs of models; use up to 64 letters, digits, "
        "'_' and '-'."
        for name in names
        if not CALLABLE_NAME.fullmatch(name)
    ]
