"""What the agent sees: a session's prompt and tools as each provider is given them, for the panel beside a play."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from environments.display.parts import indented, read_json
from episodes.playtest.provider_formats import Format, Unrepresentable, prompt_as, tools_as

IMAGE_CHARACTERS = 120
"""Of an image's data that are shown; the image itself is in the prompt."""
SHOWN_CHARACTERS = 100_000
_NAMES: dict[Format, str] = {"openai": "OpenAI", "anthropic": "Anthropic", "google": "Google"}
_TOOLS = {"openai": "tools", "anthropic": "tools", "google": "functionDeclarations"}
_DATA = ("data", "url")


@dataclass(frozen=True, slots=True)
class ProviderView:
    """One provider's."""

    key: Format
    name: str
    prompt: str
    """Indented JSON; a sentence where there is no such form."""
    tools_word: str
    """What the provider's API calls the list of tools."""
    tools: str
    """Indented JSON."""


@dataclass(frozen=True, slots=True)
class AgentView:
    views: list[ProviderView]
    has_images: bool
    """Whether the data of images is cut."""


def agent_view_of(prompt_json: str, tools_json: str) -> AgentView:
    """Of a prompt and a listing of tools as they were recorded, texts of JSON; either may be empty."""
    prompt, listing = read_json(prompt_json), read_json(tools_json)
    tools = listing.get("tools") if isinstance(listing, dict) else listing
    listed = [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
    views = [
        ProviderView(key, name, _prompt(prompt, key), _TOOLS[key], _tools(listed, key)) for key, name in _NAMES.items()
    ]
    return AgentView(views, has_images='"mimeType"' in prompt_json)


def _prompt(prompt: Any, key: Format) -> str:
    if not isinstance(prompt, list):
        return "There is no prompt."
    try:
        return _text(_short(prompt_as(prompt, key)))
    except Unrepresentable as error:
        return str(error)
    except (LookupError, TypeError, AttributeError, RecursionError):  # others recorded it: it may be anything
        return "This prompt is none that clients could convert."


def _tools(tools: list[Any], key: Format) -> str:
    try:
        return _text(tools_as(tools, key))
    except (LookupError, TypeError, RecursionError):
        return "These tools are none that clients could convert."


def _text(value: Any) -> str:
    text = indented(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}\N{HORIZONTAL ELLIPSIS}"


def _short(value: Any) -> Any:
    """`value` with the data of images cut."""
    if isinstance(value, list):
        return [_short(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _cut(inner) if key in _DATA and isinstance(inner, str) else _short(inner) for key, inner in value.items()
    }


def _cut(data: str) -> str:
    if len(data) <= IMAGE_CHARACTERS:
        return data
    return f"{data[:IMAGE_CHARACTERS]}\N{HORIZONTAL ELLIPSIS} ({len(data):,} characters)"
