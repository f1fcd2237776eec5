"""The tools that a session offers and their forms, as the player's page shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from environments.display.formats import in_words
from environments.display.parts import read_json
from episodes.people.forms.form import html_of

MAX_FORMS = 12
"""Maximum number of forms on a page when it loads."""
MAX_FORM_CHARACTERS = 200_000
"""Maximum number of characters of HTML of the forms on a page when it loads."""
MAX_LISTINGS = 32
"""Maximum number of listings whose forms are cached; most tasks of an environment offer the same
tools."""


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool of a listing."""

    name: str
    description: str
    schema: Any
    """JSON Schema of the input; None if the tool takes no input."""
    is_final: bool = False
    """Whether the tool takes an agent's final message. Agents do not see it as a tool."""

    def to_message(self) -> dict[str, Any]:
        """Return the tool as the page's script gets it."""
        facts = {"name": self.name, "description": self.description, "input_schema": self.schema}
        return facts | {"is_final": self.is_final, "title": in_words(self.name)}


def offered_tools(tools_json: str) -> list[OfferedTool]:
    """Return the tools of a listing (JSON of ListToolsOutput), the tool for the final message
    last."""
    listing = read_json(tools_json)
    if not isinstance(listing, dict):
        return []
    tools = [item for item in listing.get("tools") or [] if isinstance(item, dict)]
    tools_offered = [
        OfferedTool(
            str(tool.get("name")), str(tool.get("description") or ""), tool.get("input_schema")
        )
        for tool in tools
    ]
    final = listing.get("terminal_tool")
    return [*tools_offered, _final(final)] if isinstance(final, dict) else tools_offered


@lru_cache(MAX_LISTINGS)
def forms_of(tools_json: str, *, is_plain: bool = False) -> list[str]:
    """Return `first_forms` of a listing. Cached, so callers must not change the list."""
    return first_forms(offered_tools(tools_json), is_plain=is_plain)


def first_forms(tools: Sequence[OfferedTool], *, is_plain: bool = False) -> list[str]:
    """Return the HTML of the empty forms of the first tools, so that the page has them when it
    loads.

    The page requests the other forms when their tools are chosen.
    """
    forms: list[str] = []
    for tool in tools[:MAX_FORMS]:
        html = html_of(tool.name, tool.schema, is_plain=is_plain)
        if sum(map(len, forms)) + len(html) > MAX_FORM_CHARACTERS:
            break
        forms.append(html)
    return forms


def _final(tool: dict[str, Any]) -> OfferedTool:
    arg = tool.get("arg")
    words = {
        "type": "string",
        "description": "The final message of an agent.",
        "maxLength": 100_000,
    }
    schema = (
        {"type": "object", "properties": {arg: words}, "required": [arg]}
        if isinstance(arg, str)
        else None
    )
    return OfferedTool(
        str(tool.get("name")), str(tool.get("description") or ""), schema, is_final=True
    )
