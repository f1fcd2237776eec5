"""Toolbox: the tools that a session offers, as the player's page gets them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from environments.display.parts import read_json
from episodes.playtest.forms.answer import answer_form

MAX_FORMS = 12
MAX_CHARACTERS = 200_000
"""Of their forms together."""
MAX_LISTINGS = 32
"""Of which the forms are kept: tasks of one environment mostly offer the same tools."""


@dataclass(frozen=True, slots=True)
class Offered:
    name: str
    description: str
    schema: Any
    """JSON Schema of the input; None: it takes none."""
    is_final: bool = False
    """It takes an agent's final message, so agents never see it as a tool."""

    def told(self) -> dict[str, Any]:
        facts = {"name": self.name, "description": self.description, "input_schema": self.schema}
        return facts | {"is_final": self.is_final}


def offered(tools_json: str) -> list[Offered]:
    """Of a listing as the agent got it (JSON of ListToolsOutput), the one for the final message last."""
    listing = read_json(tools_json)
    if not isinstance(listing, dict):
        return []
    tools = [item for item in listing.get("tools") or [] if isinstance(item, dict)]
    found = [Offered(str(one.get("name")), str(one.get("description") or ""), one.get("input_schema")) for one in tools]
    final = listing.get("terminal_tool")
    return [*found, _final(final)] if isinstance(final, dict) else found


@lru_cache(MAX_LISTINGS)
def forms_of(tools_json: str) -> list[str]:
    """`first_forms` of a listing. Not to be changed."""
    return first_forms(offered(tools_json))


def first_forms(tools: Sequence[Offered]) -> list[str]:
    """HTML of the first tools' forms as they are at first, so that they stand on the page before anything is typed.

    The page asks for the others, and for one that is empty here, when its tool is chosen.
    """
    found: list[str] = []
    for tool in tools[:MAX_FORMS]:
        answer = answer_form({tool.name: tool.schema}, {"do": "show", "tool": tool.name})
        html = str(answer.get("html", ""))
        if sum(map(len, found)) + len(html) > MAX_CHARACTERS:
            break
        found.append(html)
    return found


def _final(tool: dict[str, Any]) -> Offered:
    arg = tool.get("arg")
    words = {"type": "string", "description": "What an agent would say at the end.", "maxLength": 100_000}
    schema = {"type": "object", "properties": {arg: words}, "required": [arg]} if isinstance(arg, str) else None
    return Offered(str(tool.get("name")), str(tool.get("description") or ""), schema, is_final=True)
